# One file, two images and their bills of materials:
#   docker build --target operator -t tunewright-operator .
#   docker build --target trial --build-arg TRIAL_BASE_IMAGE=rocm/primus:v26.5 -t tunewright-trial .
#   docker build --target operator-sbom --output dist .     (or trial-sbom: CycloneDX, as JSON)
# Every stage's base is an argument, so that mirrors, digests (…_BASE_IMAGE=python@sha256:…) and local bases need no
# edit. No step depends on the processor: `docker buildx build --platform linux/amd64,linux/arm64` works as far as the
# bases go. VERSION, REVISION and CREATED become labels.
ARG BUILDER_BASE_IMAGE=python:3.11-slim
ARG OPERATOR_BASE_IMAGE=python:3.11-slim
ARG TRIAL_BASE_IMAGE=rocm/primus:v26.5

FROM ${BUILDER_BASE_IMAGE} AS builder
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY crds crds
COPY operator operator
COPY trial_runner trial_runner
RUN python3 -m venv /build \
    && /build/bin/pip install --no-cache-dir --quiet --upgrade pip \
    && /build/bin/pip wheel --no-cache-dir --quiet --no-deps --wheel-dir /wheels . \
    && cp constraints.txt /wheels/

FROM ${OPERATOR_BASE_IMAGE} AS operator-environment
COPY --from=builder /wheels /wheels
# A virtual environment at its final path: its scripts name their interpreter absolutely.
RUN python3 -m venv /opt/tunewright \
    && /opt/tunewright/bin/pip install --no-cache-dir --quiet --upgrade pip \
    && wheel=$(echo /wheels/tunewright-*.whl) \
    && /opt/tunewright/bin/pip install --no-cache-dir --quiet --constraint /wheels/constraints.txt "${wheel}[operator]" \
    && /opt/tunewright/bin/pip uninstall --quiet --yes pip

FROM operator-environment AS operator-inventory
RUN python3 -m venv /inventory \
    && /inventory/bin/pip install --no-cache-dir --quiet --constraint /wheels/constraints.txt cyclonedx-bom \
    && mkdir /sbom \
    && /inventory/bin/cyclonedx-py environment --no-validate --output-reproducible --output-file /sbom/tunewright-operator.cdx.json \
       /opt/tunewright/bin/python

FROM scratch AS operator-sbom
COPY --from=operator-inventory /sbom /

FROM ${OPERATOR_BASE_IMAGE} AS operator
ARG OPERATOR_BASE_IMAGE
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="tunewright-operator" \
      org.opencontainers.image.description="Tunes LLM training on AMD Instinct GPUs: the Kubernetes operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${OPERATOR_BASE_IMAGE}"
COPY --from=operator-environment /opt/tunewright /opt/tunewright
ENV PATH=/opt/tunewright/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    USER=tunewright
USER 65532:65532
ENTRYPOINT ["tunewright"]
CMD ["operator"]

FROM ${TRIAL_BASE_IMAGE} AS trial
ARG TRIAL_BASE_IMAGE
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="tunewright-trial" \
      org.opencontainers.image.description="Tunes LLM training on AMD Instinct GPUs: the program that trials run" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${TRIAL_BASE_IMAGE}"
# The base brings torch; the wheel without extras brings numpy, pydantic and pyyaml where they are missing.
RUN --mount=type=bind,from=builder,source=/wheels,target=/wheels \
    PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir --quiet /wheels/tunewright-*.whl
# Pods say who runs it (spec.pod and its defaults: 1000); elsewhere it is nobody either.
USER 65532:65532
ENTRYPOINT ["python3", "-m", "tunewright_trial"]

FROM trial AS trial-inventory
USER 0
COPY --from=builder /wheels/constraints.txt /
RUN python3 -m venv /inventory \
    && /inventory/bin/pip install --no-cache-dir --quiet --constraint /constraints.txt cyclonedx-bom \
    && mkdir /sbom \
    && /inventory/bin/cyclonedx-py environment --no-validate --output-reproducible --output-file /sbom/tunewright-trial.cdx.json \
       "$(command -v python3)"

FROM scratch AS trial-sbom
COPY --from=trial-inventory /sbom /
