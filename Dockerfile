# Videoveil on a CPU, as a user without rights. The same image serves (`veil serve`) and restreams (`veil anonymize`).
#
#   docker build -t videoveil .        # --build-arg PIP_EXTRA_INDEX_URL=…: an index with torch built for CPUs
#   docker run --rm -v "$PWD:/videos" videoveil anonymize /videos/in.mp4 /videos/out.mp4 --with blur

FROM python:3.11.14-slim-bookworm AS build
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/veil
WORKDIR /src
# first what changes rarely
COPY constraints.txt ./
RUN /opt/veil/bin/pip install -c constraints.txt torch torchvision
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/veil/bin/pip install -c constraints.txt ".[serve,detect]"

FROM python:3.11.14-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /home/veil veil \
    && install -d -o veil -g veil -m 0700 /data
COPY --from=build /opt/veil /opt/veil
ENV PATH=/opt/veil/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_DISABLE_TELEMETRY=1
USER 10001:10001
WORKDIR /home/veil
VOLUME /data
EXPOSE 8040
ENTRYPOINT ["veil"]
CMD ["--help"]
