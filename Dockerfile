# The service in a container: `docker build -t stepwell .`, then deploy/compose.yaml shows its use.
#
# It keeps its state in /data and listens on a Unix socket in /run/stepwell, beside the token that it
# mints there. Whoever mounts that folder and runs as the same user is a client; nobody else is.

# Base images go by tag here, and a tag may move. To pin them, replace both tags by what
# `docker buildx imagetools inspect python:3.11-slim-bookworm` names: python:3.11-slim-bookworm@sha256:...
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src

# What the service depends on, by hash. It changes seldom, so it comes first.
COPY deploy/requirements.txt deploy/requirements.txt
RUN python -m venv --without-pip /opt/stepwell \
    && pip --python /opt/stepwell/bin/python install \
        --require-hashes --no-deps --only-binary :all: -r deploy/requirements.txt

# What builds the service's own wheels, by hash, too: pip would fetch any hatchling.
COPY deploy/build-requirements.txt deploy/build-requirements.txt
RUN python -m venv --without-pip /opt/build \
    && pip --python /opt/build/bin/python install \
        --require-hashes --no-deps --only-binary :all: -r deploy/build-requirements.txt

COPY proto proto
COPY clients/python clients/python
COPY pyproject.toml README.md LICENSE ./
COPY drivers drivers
COPY service service
RUN pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels ./clients/python . \
    && pip --python /opt/stepwell/bin/python install --no-index /wheels/*.whl


FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Stepwell" \
      org.opencontainers.image.description="Durable agent loops as a gRPC service" \
      org.opencontainers.image.licenses="Apache-2.0"

# A volume that is mounted empty takes over owner and mode of these folders. Both are the service's own:
# it refuses to put a socket or a token where others could reach them.
RUN ["install", "-d", "-o", "10001", "-g", "10001", "-m", "0700", "/data", "/run/stepwell"]
COPY --from=build /opt/stepwell /opt/stepwell

# Two of these name a file that holds a token; none is a token.
# hadolint ignore=DL3064
ENV PATH=/opt/stepwell/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/data \
    STEPWELL_STORE__URL=sqlite:////data/stepwell.db \
    STEPWELL_GRPC__SOCKET=/run/stepwell/stepwell.sock \
    STEPWELL_AUTH__TOKEN_FILE=/run/stepwell/token \
    STEPWELL_LOG__FORMAT=json \
    STEPWELL_TARGET=unix:/run/stepwell/stepwell.sock \
    STEPWELL_TOKEN_FILE=/run/stepwell/token

USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["stepwell", "health"]
ENTRYPOINT ["stepwell"]
CMD ["serve"]
