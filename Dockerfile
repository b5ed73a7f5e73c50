# kinrank serve in a container: `docker build -t kinrank .`; see docs/service/operate.md.
FROM python:3.12-slim AS build
WORKDIR /build
RUN python -m venv /opt/kinrank
COPY pyproject.toml README.md LICENSE ./
COPY src src
# Compile all loops now. The machine code is stored next to the sources, where the service can read but not change it.
RUN /opt/kinrank/bin/pip install --no-cache-dir '.[web,pgvector]' \
 && /opt/kinrank/bin/kinrank warmup --quiet

FROM python:3.12-slim
COPY --from=build /opt/kinrank /opt/kinrank
RUN useradd --uid 10001 --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin kinrank \
 && install -d -o kinrank -g kinrank -m 0750 /data
# Thumbnails, and loops compiled for another kind of processor, are stored next to the gallery.
ENV PATH=/opt/kinrank/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_CACHE_HOME=/data/.cache
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib import request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8000/ready', timeout=4)"]
# Access from other machines requires a token: -e KINRANK_TOKENS=read:READ-SECRET,write:WRITE-SECRET; generate each secret with
# openssl rand -hex 16
ENTRYPOINT ["kinrank"]
CMD ["serve", "/data/gallery.manifold", "--host", "0.0.0.0"]
