// Two videos in step: the anonymized one leads, the raw one follows it.
"use strict";

class Pair {
  constructor(raw, veiled, controls, moved) {
    Object.assign(this, { raw, veiled, controls, moved });
    this.rawWorks = false;
    controls.play.addEventListener("click", () => this.toggle());
    controls.seek.addEventListener("input", () => this.seek(Number(controls.seek.value)));
    veiled.addEventListener("ended", () => this.pause());
    veiled.addEventListener("loadedmetadata", () => {
      controls.seek.max = String(veiled.duration || 1);
      for (const video of [raw, veiled]) video.style.aspectRatio = `${veiled.videoWidth} / ${veiled.videoHeight}`;
      this.show();
    });
    raw.addEventListener("loadeddata", () => { this.rawWorks = true; });
    raw.addEventListener("error", () => { this.rawWorks = false; });
  }

  load(raw, veiled) {
    this.pause();
    this.rawWorks = false;
    if (raw) this.raw.src = raw; else this.raw.removeAttribute("src");
    this.veiled.src = veiled;
  }

  clear() {
    this.pause();
    for (const video of [this.raw, this.veiled]) { video.removeAttribute("src"); video.load(); }
    this.rawWorks = false;
  }

  toggle() { if (this.veiled.paused) this.play(); else this.pause(); }

  async play() {
    if (this.veiled.ended) this.seek(0);
    if (this.rawWorks) this.raw.currentTime = this.veiled.currentTime;
    try {
      await Promise.all([this.veiled.play(), this.rawWorks ? this.raw.play() : null]);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      return;
    }
    this.say(true);
    this.follow();
  }

  pause() {
    this.veiled.pause();
    this.raw.pause();
    if (this.rawWorks) this.raw.currentTime = this.veiled.currentTime;
    this.say(false);
    this.show();
  }

  seek(seconds) {
    this.veiled.currentTime = seconds;
    if (this.rawWorks) this.raw.currentTime = seconds;
    this.show(seconds);
  }

  say(playing) {
    this.controls.play.textContent = playing ? "Pause" : "Play";
    this.controls.play.setAttribute("aria-pressed", String(playing));
  }

  show(seconds = this.veiled.currentTime) {
    const total = this.veiled.duration || 0;
    this.controls.seek.value = String(seconds);
    this.controls.seek.setAttribute("aria-valuetext", `${clock(seconds)} of ${clock(total)}`);
    this.controls.clock.textContent = `${clock(seconds)} / ${clock(total)}`;
    this.moved(seconds);
  }

  // While playing: small differences are evened out by speed, which nobody sees; large ones by a jump.
  follow() {
    if (this.veiled.paused) return;
    if (this.rawWorks && !this.raw.ended) {
      const behind = this.veiled.currentTime - this.raw.currentTime;
      if (Math.abs(behind) > 0.3) this.raw.currentTime = this.veiled.currentTime;
      else this.raw.playbackRate = Math.abs(behind) > 0.02 ? 1 + Math.max(-0.1, Math.min(0.1, behind)) : 1;
    }
    this.show();
    requestAnimationFrame(() => this.follow());
  }
}
