package world

import (
	"os/signal"
	"syscall"
	"time"
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
		a.frozenUntil = time.Now().Add(lasts)
		a.say("replica %s is frozen", name)
	})
}

// clockDeed sets the clock of a replica, which stays wrong over restarts.
func clockDeed(a *actor) {
	name := pick(a, "one", "two")
	off := pick(a, 0, time.Duration(a.random.Int64N(int64(2*time.Minute)))-time.Minute, time.Duration(a.random.Int64N(int64(2*time.Hour)))-time.Hour)
	a.setClock(name, off)
	a.faults["clock set"]++
	a.say("the clock of replica %s is wrong by %s", name, off.Round(time.Millisecond))
}

// clock returns the clock of a replica.
func (w *world) clock(name string) func() time.Time {
	return func() time.Time {
		w.clocks.Lock()
		defer w.clocks.Unlock()
		return time.Now().Round(0).Add(w.off[name]) // Only elapsed time is monotonic.
	}
}

func (w *world) setClock(name string, off time.Duration) {
	w.clocks.Lock()
	defer w.clocks.Unlock()
	w.off[name] = off
}

// endAccidents ends all faults.
func (w *world) endAccidents() {
	w.losses = 0
	w.schedule.SetSlow(0)
	w.schedule.Thaw()
	limitFiles(-1)
	for _, name := range []string{"one", "two"} {
		w.setClock(name, 0)
	}
	w.say("all accidents end")
}
