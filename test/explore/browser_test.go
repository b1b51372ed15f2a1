package explore

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// patience is how long a page may take for what it is asked, on a machine that does other things,
// too.
const patience = 60 * time.Second

// Keys as WebDriver names them.
const (
	keyEnter   = "\ue007"
	keyControl = "\ue009"
	keyEnd     = "\ue010"
	keyHome    = "\ue011"
	keyLeft    = "\ue012"
	keyUp      = "\ue013"
	keyRight   = "\ue014"
	keyDown    = "\ue015"
	keyPage    = "\ue00f" // Page Down
	keyTab     = "\ue004"
	keyEscape  = "\ue00c"
)

var startedOn = regexp.MustCompile(`started successfully on port (\d+)`)

// browser is one window of a headless Chromium.
type browser struct {
	t       *testing.T
	session string // its address at chromedriver
}

// newBrowser starts Chromium, which ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	for _, program := range []string{"chromium", "chromedriver"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not on the PATH: install it (Debian: apt-get install chromium chromium-driver)", program)
		}
	}
	port := ""
	for attempt := 0; port == "" && attempt < 10; attempt++ {
		port = startDriver(t)
	}
	if port == "" {
		t.Fatal("chromedriver did not say on which port it listens")
	}
	b := &browser{t: t, session: "http://127.0.0.1:" + port}
	var session struct{ SessionID string }
	b.do("POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
			"--disable-component-update", "--enable-precise-memory-info", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1440,900", "--user-data-dir=" + t.TempDir(),
		}},
		"timeouts": map[string]any{"script": patience.Milliseconds()},
	}}}, &session)
	b.session += "/session/" + session.SessionID
	t.Cleanup(func() { b.do("DELETE", "", nil, nil) })
	return b
}

// startDriver starts chromedriver and returns its port; none if it ended. It takes a free port of
// ::1, which another program may use on 127.0.0.1.
func startDriver(t *testing.T) (port string) {
	driver := exec.Command("chromedriver", "--port=0")
	driver.Stderr = os.Stderr
	output, err := driver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = driver.Process.Kill()
		_ = driver.Wait()
	})
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if match := startedOn.FindStringSubmatch(lines.Text()); match != nil {
			return match[1]
		}
	}
	return ""
}

// do sends one command of WebDriver.
func (b *browser) do(method, path string, body, into any) {
	b.t.Helper()
	if failure := b.try(method, path, body, into); failure != "" {
		b.t.Fatalf("%s: %s", path, failure)
	}
}

// try is do that returns the failure of a command, as JSON; empty if there is none.
func (b *browser) try(method, path string, body, into any) (failure string) {
	b.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			b.t.Fatal(err)
		}
	}
	request, err := http.NewRequest(method, b.session+path, bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := (&http.Client{Timeout: 2 * patience}).Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	answer := struct{ Value json.RawMessage }{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return string(answer.Value)
	}
	if into != nil {
		if err := json.Unmarshal(answer.Value, into); err != nil {
			b.t.Fatalf("%s: %v", path, err)
		}
	}
	return ""
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.do("POST", "/url", map[string]any{"url": url}, nil)
}

// eval runs the body of a function.
func eval[T any](b *browser, body string, args ...any) T {
	b.t.Helper()
	var value T
	b.do("POST", "/execute/sync", map[string]any{"script": body, "args": append([]any{}, args...)}, &value)
	return value
}

// wait lets the page draw until an expression holds.
func (b *browser) wait(expression string) {
	b.t.Helper()
	var held bool
	b.do("POST", "/execute/async", map[string]any{"args": []any{}, "script": fmt.Sprintf(
		`const done = arguments[0], end = Date.now() + %d; const look = async () => { if (await (%s)) done(true); else if (Date.now() > end) done(false); else setTimeout(look, 20); }; look();`,
		(patience - 5*time.Second).Milliseconds(), expression)}, &held)
	if !held {
		b.t.Fatalf("this does not come true: %s\nat %s the page says\n%s", expression, eval[string](b, `return location.href`), eval[string](b, `return document.body.innerText`))
	}
}

// press types keys one after the other; with a first one held down, if it is keyControl.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	var actions []map[string]any
	key := func(kind, value string) { actions = append(actions, map[string]any{"type": kind, "value": value}) }
	held := len(keys) > 0 && keys[0] == keyControl
	if held {
		key("keyDown", keyControl)
		keys = keys[1:]
	}
	for _, k := range keys {
		key("keyDown", k)
		key("keyUp", k)
	}
	if held {
		key("keyUp", keyControl)
	}
	b.do("POST", "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": actions}}}, nil)
}

// click clicks with the mouse in the middle of the element that a CSS selector finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	// A page that follows a hub may replace the element in between.
	for tries := 5; ; tries-- {
		var found map[string]string
		b.do("POST", "/element", map[string]any{"using": "css selector", "value": selector}, &found)
		failure := ""
		for _, id := range found {
			failure = b.try("POST", "/element/"+id+"/click", map[string]any{}, nil)
		}
		switch {
		case failure == "":
			return
		case tries == 0 || !strings.Contains(failure, "stale element reference"):
			b.t.Fatalf("clicking %s: %s", selector, failure)
		}
	}
}

// prefer has the page shown in a colour scheme.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	b.do("POST", "/goog/cdp/execute", map[string]any{"cmd": "Emulation.setEmulatedMedia", "params": map[string]any{
		"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}},
	}}, nil)
}

// resize makes the window another size.
func (b *browser) resize(width, height int) {
	b.t.Helper()
	b.do("POST", "/window/rect", map[string]any{"width": width, "height": height}, nil)
}

// picture writes a screenshot if BERTH_SCREENSHOTS is set.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("BERTH_SCREENSHOTS")
	if folder == "" {
		return
	}
	var text string
	b.do("GET", "/screenshot", nil, &text)
	png, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name), png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
