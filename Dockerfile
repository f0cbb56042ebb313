# broadmatch with its kernels compiled, for any user and a read-only root file system:
#   docker build -t broadmatch .
#   docker run --rm --read-only --user 12345 -v "$PWD:/data" broadmatch recommend model/ landing.html
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
# What else is installed, such as [serve,kafka] for a server (deploy/compose.yaml).
ARG EXTRAS=""
RUN python -m venv /opt/broadmatch && /opt/broadmatch/bin/pip install --no-cache-dir ".$EXTRAS"
# Machine code is for one kind of processor, and an image runs on many: generic runs on all of its architecture.
ARG NUMBA_CPU_NAME=generic
ARG NUMBA_CPU_FEATURES=""
RUN /opt/broadmatch/bin/broadmatch warmup

FROM python:3.12-slim
ARG NUMBA_CPU_NAME=generic
ARG NUMBA_CPU_FEATURES=""
ENV NUMBA_CPU_NAME=$NUMBA_CPU_NAME NUMBA_CPU_FEATURES=$NUMBA_CPU_FEATURES PATH=/opt/broadmatch/bin:$PATH
COPY --from=build /opt/broadmatch /opt/broadmatch
USER 65532:65532
WORKDIR /data
ENTRYPOINT ["broadmatch"]
CMD ["--help"]
