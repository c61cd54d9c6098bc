# diffbcp on the processor:  docker build -t diffbcp . && docker run --rm -v "$PWD:/work" diffbcp denoise photo.png -o out/
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt --index-url https://download.pytorch.org/whl/cpu torch \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt /wheels/*.whl \
    && rm -rf /wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 diffbcp
USER 1000
WORKDIR /work
ENTRYPOINT ["diffbcp"]
CMD ["--help"]
