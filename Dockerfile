# The image holds the program and nothing else: no base image, no shell. `make image` builds the
# static program bin/berth and then this image. GOARCH names another architecture:
#
#   GOARCH=arm64 make image IMAGE=berth:v0.1.0
#
# Time zones are in the program. Where it must trust public certificate authorities, mount their
# certificates at /etc/ssl/certs.
FROM scratch
COPY --chmod=0555 bin/berth /berth
USER 65532:65532
ENTRYPOINT ["/berth"]
