package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// limitFiles makes writes of this process fail that would make a file larger than this, as a full
// disk does; negative ends that.
func limitFiles(size int64) {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	if limit.Cur = limit.Max; size >= 0 {
		limit.Cur = uint64(size)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
}

// diskDeed fills the disk of the recordings, or frees it.
func diskDeed(a *actor) {
	if a.diskFull = !a.diskFull; !a.diskFull {
		limitFiles(-1)
		a.say("the disk of the recordings has space again")
		return
	}
	size := a.random.Int64N(4096)
	limitFiles(size)
	a.faults["full disk"]++
	a.say("the disk of the recordings is full, after %d bytes of a file", size)
}

// freezeDeed freezes a replica when it sends its next write. Then nothing reaches it and nothing
// leaves it; what it has sent reaches the server when it wakes, and it may be a former leader then.
func freezeDeed(a *actor) {
	name, lasts := pick(a, "one", "two"), time.Duration(a.random.Int64N(int64(pick(a, 20*time.Second, 3*time.Minute))))
	a.say("replica %s freezes for %s at its next write", name, lasts.Round(time.Millisecond))
	a.schedule.FreezeAtWrite(name, lasts, func() {
		a.faults["freeze"]++
		a.frozen[name] = time.Now().Add(lasts)
		a.end(a.frozen[name].Add(lease().Duration))
		a.say("replica %s is frozen", name)
	})
}

// clockDeed sets the clock of a replica, which stays wrong over restarts.
func clockDeed(a *actor) {
	if a.limited {
		return // The window of a limit has the time of the clock.
	}
	name := pick(a, "one", "two")
	off := pick(a, 0, time.Duration(a.random.Int64N(int64(2*time.Minute)))-time.Minute, time.Duration(a.random.Int64N(int64(2*time.Hour)))-time.Hour)
	a.setClock(name, off)
	a.faults["clock set"]++
	a.say("the clock of replica %s is wrong by %s", name, off.Round(time.Millisecond))
}

// maxReads are the most times that replicas read their clocks in a minute.
const maxReads = 100_000

// clock returns the clock of a replica. Attempts without end, one at once after the other, end the
// process (law 10): time all but stands still for everything else.
func (w *world) clock(name string) func() time.Time {
	return func() time.Time {
		w.clocks.Lock()
		defer w.clocks.Unlock()
		now := time.Now().Round(0) // Only elapsed time is monotonic.
		if w.reads++; now.Sub(w.readAt) >= time.Minute {
			w.readAt, w.reads = now, 0
		}
		if w.reads > maxReads {
			w.laws.breaks("law 10: attempts without end")
			fmt.Printf("seed %d breaks a law:\n%s\n%s\n", w.seed, strings.Join(w.story, "\n"), strings.Join(w.laws.broken, "\n"))
			os.Exit(1)
		}
		return now.Add(w.off[name])
	}
}

func (w *world) setClock(name string, off time.Duration) {
	w.clocks.Lock()
	defer w.clocks.Unlock()
	w.off[name] = off
}

// endAccidents ends all faults.
func (w *world) endAccidents() {
	w.losses, w.refusedUntil, w.latePagesEnd = 0, time.Time{}, time.Time{}
	w.schedule.SetSlow(0)
	w.schedule.Thaw()
	limitFiles(-1)
	for _, name := range []string{"one", "two"} {
		w.setClock(name, 0)
	}
	w.say("all accidents end")
}

// rivalDeed lets another client write pages at the same time as Berth for a while.
func rivalDeed(a *actor) {
	a.rivalsEnd = time.Now().Add(time.Duration(a.random.Int64N(int64(5 * time.Minute))))
	a.say("another client annotates pages that Berth writes until %s", a.rivalsEnd.UTC().Format("15:04:05"))
}

// rival annotates a page before the update of a replica arrives, which then conflicts.
func (w *world) rival(of string, r *http.Request, random *rand.Rand) {
	if of == "person" || r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/placementdecisions/") || time.Now().After(w.rivalsEnd) || random.IntN(3) > 0 {
		return
	}
	page, key := &v1alpha1.PlacementDecision{}, types.NamespacedName{Namespace: "team", Name: path.Base(r.URL.Path)}
	if w.direct.Get(context.Background(), key, page) != nil {
		return
	}
	metav1.SetMetaDataAnnotation(&page.ObjectMeta, "rival.invalid/at", time.Now().UTC().Format(time.RFC3339Nano))
	if w.direct.Update(context.Background(), page) == nil {
		w.faults["conflict"]++
	}
}
