# syntax=docker/dockerfile:1
# A static binary and nothing else: no distribution, no shell, a user without rights. For several platforms at once:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) -t berth:v0.1.0 .
#
# Both base images can be others: --build-arg BUILD_IMAGE=... has the Go of go.mod, from a mirror for example; --build-arg BASE_IMAGE=...
# may be a distroless static one, should certificates of public authorities be needed. Time zones are in the binary.
ARG BUILD_IMAGE=golang:1.26
ARG BASE_IMAGE=scratch

# Compiled on the machine's own platform for the one wanted.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY api api
COPY cmd cmd
COPY config config
COPY controllers controllers
COPY pkg pkg
ARG TARGETOS TARGETARCH
ARG VERSION=unknown COMMIT=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    GOCACHE=/cache CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -o /berth \
    -ldflags="-s -w -X github.com/berth-dev/berth/cmd/berth/app.version=$VERSION -X github.com/berth-dev/berth/cmd/berth/app.commit=$COMMIT" \
    ./cmd/berth

FROM ${BASE_IMAGE}
COPY --from=build /berth /berth
USER 65532:65532
ENTRYPOINT ["/berth"]
