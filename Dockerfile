# One image for web, worker and migration, with the torch that is named; `worker-gpu` has arguments of its own.
#
#   docker build .                                              the torch that the package index gives
#   docker build --build-arg TORCH_INDEX=<index of CPU builds> --build-arg TORCH_SPEC=torch==2.14.1+cpu .
FROM python:3.12-slim-bookworm

# g++ and the headers are for torch.compile at run time, bubblewrap for the sandbox.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ libc6-dev bubblewrap \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/minimizer
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# torch first: it is large, and changes less often than what follows.
ARG TORCH_SPEC=torch==2.14.1
ARG TORCH_INDEX=
RUN pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "$TORCH_SPEC"

COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY minimizer minimizer
COPY worker worker
COPY web web
COPY migrations migrations
COPY docs docs
RUN version=$(python -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])') \
    && sed "s/^torch==.*/torch==$version/" constraints.txt > /tmp/constraints.txt \
    && pip install --constraint /tmp/constraints.txt ".[production,oidc]"

# A volume that is mounted here begins with this mode: workers of any user put the locks of GPUs there.
RUN useradd --create-home minimizer && mkdir --mode=1777 /tmp/minimizer-gpus
USER minimizer
WORKDIR /home/minimizer
