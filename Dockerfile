# The image holds the program and nothing else: no base image, no shell. `make build` builds the
# program, static, for this machine; GOOS and GOARCH name another platform:
#
#   GOOS=linux GOARCH=arm64 make build && docker build --platform linux/arm64 -t berth:v0.1.0 .
#
# Time zones are in the program. Where it must trust public certificate authorities, mount their
# certificates at /etc/ssl/certs.
FROM scratch
COPY --chmod=0555 bin/berth /berth
USER 65532:65532
ENTRYPOINT ["/berth"]
