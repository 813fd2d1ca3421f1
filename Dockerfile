# One file, two images:
#   docker build --target operator -t tunewright-operator .
#   docker build --target trial --build-arg TRIAL_BASE_IMAGE=rocm/primus:v26.5 -t tunewright-trial .
# Every stage's base is an argument, so that mirrors, digests and local bases need no edit.
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

FROM ${OPERATOR_BASE_IMAGE} AS operator
LABEL org.opencontainers.image.title="tunewright-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
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
LABEL org.opencontainers.image.title="tunewright-trial" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /wheels /wheels
# The base brings torch; the wheel without extras brings numpy, pydantic and pyyaml where they are missing.
RUN PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir --quiet /wheels/tunewright-*.whl \
    && rm -r /wheels
ENTRYPOINT ["python3", "-m", "tunewright_trial"]
