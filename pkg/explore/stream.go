package explore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// keepAlive is how often a stream without Updates sends an event, so that proxies keep it open.
	keepAlive = 15 * time.Second
	// writeTimeout is how long one write of a stream may take.
	writeTimeout = 10 * time.Second
)

// stream sends the Updates of a LiveWorld as server-sent events, until the client disconnects
// or its token ends.
func stream(w http.ResponseWriter, r *http.Request, l *LiveWorld) {
	version, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	if err != nil {
		http.Error(w, "since must be the version of api/fleet", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	send := func(event, data string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	l.streams.Add(1)
	defer l.streams.Add(-1)
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	// The first event tells the page that the stream is open.
	if !send("open", "{}") {
		return
	}
	for {
		updates, next, ok := l.since(version)
		if !ok {
			send("reload", "{}")
			return
		}
		for _, u := range updates {
			text, err := json.Marshal(u)
			if err != nil || !send("update", string(text)) {
				return
			}
			version = u.Version
		}
		select {
		case <-r.Context().Done():
			return
		case <-l.gone:
			send("reload", "{}")
			return
		case <-next:
		case <-tick.C:
			if !valid(r.Context()) || !send("alive", "{}") {
				return
			}
		}
	}
}
