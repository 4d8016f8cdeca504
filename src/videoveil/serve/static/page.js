// The page: choose, upload, watch the progress, compare, download, delete. The raw video is shown from the reader's own
// file and is never asked back from the service.
"use strict";

const at = (id) => document.getElementById(id);
const state = { token: sessionStorage.getItem("veil-token") || "", models: [], file: null, job: null, urls: [], upload: null };
let moveHand = () => {};
const pair = new Pair(at("raw"), at("veiled"), { play: at("play"), seek: at("seek"), clock: at("clock") }, (seconds) => moveHand(seconds));

// --- talking to the service ---

const headers = () => (state.token ? { Authorization: `Bearer ${state.token}` } : {});

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers() });
  if (answer.status === 401) { signIn("This token is not known here."); throw new Error("not signed in"); }
  if (!answer.ok) throw new Error(await reason(answer));
  return answer;
}

async function reason(answer) {
  try { return words((await answer.json()).detail); } catch { return `The service answered ${answer.status}.`; }
}

const words = (detail) => (typeof detail === "string" ? detail : "The service refused the request.");

function problem(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}

// --- token and models ---

function signIn(text) {
  sessionStorage.removeItem("veil-token");
  state.token = "";
  for (const id of ["choose", "progress", "result", "figures", "others"]) at(id).hidden = true;
  at("sign-in").hidden = false;
  problem(text || "");
  at("token").focus();
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = at("token").value.trim();
  at("token").value = "";
  begin();
});

async function begin() {
  problem("");
  try {
    const about = await (await ask("/api/models")).json();
    if (state.token) sessionStorage.setItem("veil-token", state.token);
    state.models = about.models;
    state.limit = about.upload_bytes;
    at("model").replaceChildren(...about.models.map((model) => new Option(model.name, model.name)));
    at("sign-in").hidden = true;
    at("choose").hidden = at("figures").hidden = false;
    showModel(at("model").value);
    choose(at("file").files[0]);
    await listJobs();
  } catch (error) {
    if (error.message !== "not signed in") problem(error.message);
  }
}

function showModel(name) {
  const model = state.models.find((one) => one.name === name);
  at("figures-title").textContent = `What is known of ${name}`;
  if (model) showFigures(model, at("figures-table"), at("verdict"), at("figures-note"));
}

at("model").addEventListener("change", () => showModel(at("model").value));

// --- choosing a file ---

const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`);

function choose(file) {
  const large = file && file.size > state.limit;
  problem(large ? `${file.name} has ${size(file.size)}; up to ${size(state.limit)} are taken.` : "");
  state.file = large ? null : file || null;
  at("file-note").textContent = state.file ? size(file.size) : `mp4, mov, mkv, webm, avi, ts, flv, gif and others, up to ${size(state.limit)}`;
  at("start").disabled = !state.file;
}

at("file").addEventListener("change", () => choose(at("file").files[0]));
for (const kind of ["dragenter", "dragover"]) {
  at("drop").addEventListener(kind, (event) => { event.preventDefault(); at("drop").classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) at("drop").addEventListener(kind, () => at("drop").classList.remove("over"));
at("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  at("file").files = event.dataTransfer.files;  // so that the field shows its name
  choose(event.dataTransfer.files[0]);
});
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());

// --- uploading and waiting ---

at("job-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!state.file) return;
  clearResult();
  busy(true);
  try {
    say("Uploading");
    const job = await send(state.file, at("model").value, at("audio").checked);
    state.job = job;
    await watch(job);
  } catch (error) {
    at("progress").hidden = true;
    if (error.message !== "deleted") problem(error.message);
  } finally {
    busy(false);
    listJobs();
  }
});

function busy(now) {
  at("start").disabled = now || !state.file;
  if (!now) return;
  problem("");
  at("bar").removeAttribute("value");
  at("numbers").textContent = "";
  at("progress").hidden = false;
  at("progress").focus();
}

function say(text) {
  if (at("said").textContent !== text) at("said").textContent = text;  // read aloud only when it changes
}

// XMLHttpRequest, because fetch does not tell how much was sent.
function send(file, model, audio) {
  return new Promise((resolve, reject) => {
    const request = state.upload = new XMLHttpRequest();
    request.open("POST", `/api/jobs?model=${encodeURIComponent(model)}&audio=${audio}`);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => {
      at("bar").value = event.loaded / event.total;
      at("numbers").textContent = `${size(event.loaded)} of ${size(event.total)}`;
      if (event.loaded === event.total) say("Uploaded; looking at it");
    };
    request.onload = () => (request.status === 201 ? resolve(request.response) : reject(new Error(words(request.response && request.response.detail))));
    request.onerror = () => reject(new Error("The connection was lost during the upload."));
    request.onabort = () => reject(new Error("deleted"));
    request.send(file);
  });
}

// Server-sent events over fetch, because EventSource cannot send a token. Lost connections are taken up again.
async function watch(job) {
  for (let lost = 0; lost < 30; lost += 1) {
    try {
      const answer = await ask(`/api/jobs/${job.id}/events`);
      let rest = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          if (part.startsWith("event: deleted")) throw new Error("deleted");
          if (!part.startsWith("event: job")) continue;
          lost = 0;
          const now = JSON.parse(part.slice(part.indexOf("data: ") + 6));
          if (showProgress(now)) return finished(now);
        }
      }
    } catch (error) {
      if (["deleted", "not signed in", "no such job"].includes(error.message)) throw error;
      say("The connection was lost; trying again");
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  throw new Error("The service does not answer any more. Your job is kept; reload this page later.");
}

function showProgress(job) {
  if (job.state === "done" || job.state === "failed") return true;
  const now = job.progress;
  if (job.state === "queued") {
    at("bar").removeAttribute("value");
    say(job.place ? `Waiting, ${job.place} before you` : "Waiting");
  } else {
    say(job.stage === "anonymizing" ? "Anonymizing" : job.stage === "looking for anomalies" ? "Looking for anomalies" : "Starting");
  }
  if (now && now.total) at("bar").value = now.frames / now.total; else at("bar").removeAttribute("value");
  at("numbers").textContent = now ? figuresOf(now) : "";
  return false;
}

function figuresOf(now) {
  const parts = [`${now.frames}${now.total ? ` of ${now.total}` : ""} frames`, `${now.fps.toFixed(1)} frames per second`];
  if (now.remaining !== null) parts.push(`${clock(Math.ceil(now.remaining))} left`);
  return parts.join(" · ");
}

// --- the result ---

async function finished(job) {
  if (job.state === "failed") throw new Error(`It failed, and no video was made: ${job.reason}`);
  say("Loading the result");
  const video = await (await ask(`/api/jobs/${job.id}/video`)).blob();
  const found = await (await ask(`/api/jobs/${job.id}/anomaly`)).json();
  show(job, video, found);
}

function show(job, video, found) {
  state.job = job;
  const own = state.file && state.own !== false ? keepUrl(state.file) : null;
  moveHand = showAnomaly(found, at("anomaly"));
  at("raw-note").hidden = Boolean(own);
  at("raw-note").textContent = own ? "" : "Your file is not on this page any more, and the service does not give raw videos out.";
  pair.load(own, keepUrl(video));
  at("by").textContent = `by ${job.model}`;
  at("until").textContent = `The raw upload is deleted already. The result is deleted on ${new Date(1000 * job.deleted_at).toLocaleString()}.`;
  showModel(job.model);
  at("progress").hidden = true;
  at("result").hidden = false;
  at("result").focus();
}

function keepUrl(blob) {
  const url = URL.createObjectURL(blob);
  state.urls.push(url);
  return url;
}

function clearResult() {
  pair.clear();
  state.urls.splice(0).forEach((url) => URL.revokeObjectURL(url));
  at("result").hidden = true;
  state.job = null;
  state.own = true;
}

at("raw").addEventListener("error", () => {
  if (!at("raw").getAttribute("src")) return;
  at("raw-note").hidden = false;
  at("raw-note").textContent = "This browser cannot play your file; the result is H.264 and can be played.";
});

async function download(path, name) {
  try {
    const link = make("a", { href: keepUrl(await (await ask(path)).blob()), download: name });
    document.body.append(link);
    link.click();
    link.remove();
  } catch (error) { problem(error.message); }
}

const short = () => state.job.id.slice(0, 8);
at("get-video").addEventListener("click", () => download(`/api/jobs/${state.job.id}/video`, `anonymized-${short()}.mp4`));
at("get-report").addEventListener("click", () => download(`/api/jobs/${state.job.id}/report.html`, `report-${short()}.html`));
at("get-json").addEventListener("click", () => download(`/api/jobs/${state.job.id}/report`, `report-${short()}.json`));

async function remove(id) {
  try {
    await ask(`/api/jobs/${id}`, { method: "DELETE" });
    if (state.job && state.job.id === id) { clearResult(); at("progress").hidden = true; }
    await listJobs();
    at("choose-title").scrollIntoView({ block: "nearest" });
    at("file").focus();
  } catch (error) { problem(error.message); }
}

at("delete").addEventListener("click", () => remove(state.job.id));
at("cancel").addEventListener("click", () => (state.job ? remove(state.job.id) : state.upload && state.upload.abort()));

// --- earlier jobs ---

async function listJobs() {
  try {
    const { jobs } = await (await ask("/api/jobs")).json();
    at("others").hidden = !jobs.length;
    at("jobs").replaceChildren(...jobs.map(jobRow));
  } catch (error) { if (error.message !== "not signed in") problem(error.message); }
}

function jobRow(job) {
  const when = new Date(1000 * job.created).toLocaleString();
  const text = `${when}, ${job.model}: ${job.state}${job.reason ? ` (${job.reason})` : ""}`;
  const row = make("li", {}, make("span", {}, text));
  const buttons = make("span", {});
  if (job.state !== "failed") buttons.append(action("Open", `Open the job of ${when}`, () => reopen(job)), " ");
  buttons.append(action("Delete", `Delete the job of ${when}`, () => remove(job.id)));
  row.append(buttons);
  return row;
}

function action(text, label, act) {
  const button = make("button", { type: "button", "aria-label": label }, text);
  button.addEventListener("click", act);
  return button;
}

async function reopen(job) {
  const same = state.job && state.job.id === job.id;
  if (!same) { clearResult(); state.own = false; }
  busy(true);
  try { state.job = job; await watch(job); } catch (error) {
    at("progress").hidden = true;
    if (error.message !== "deleted") problem(error.message);
  } finally { busy(false); listJobs(); }
}

if (document.body.dataset.needsToken === "yes" && !state.token) signIn(); else begin();
