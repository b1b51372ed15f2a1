package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/turns"
)

// columnsTime is how long a request waits for the columns of a LiveWorld. The page reads those
// that are decided later with the next Update.
const columnsTime = 2 * time.Second

// errDeciding is shown until a Placement has been decided.
var errDeciding = errors.New("the Placement is being decided")

// lockedWorld is a world with its lock, which is not held while Placements are decided. Namespaces
// take turns with their Placements, so that those of others do not wait for many costly ones.
type lockedWorld struct {
	turns turns.Turns

	mu    sync.Mutex
	world *world
	// deciding are the columns that are being decided.
	deciding map[types.NamespacedName]*columnTask
}

// columnTask is a column that is being decided. done is closed afterwards.
type columnTask struct {
	done chan struct{}
	// late is true if a request did not wait until the end. lockedWorld.mu protects it.
	late bool
}

// answer decides a question.
func (l *lockedWorld) answer(ctx context.Context, q question) (a answer) {
	l.mu.Lock()
	_, isRemote := l.world.decider.(*remote)
	l.mu.Unlock()
	decide := func() {
		l.mu.Lock()
		if !l.world.has(q) {
			l.mu.Unlock()
			a.err = fmt.Errorf("%s: %w", q.key, errUnknown)
			return
		}
		d, err := l.world.decider.begin(q.key)
		l.mu.Unlock()
		switch {
		case err != nil:
			a.err = err
		case q.cluster == "":
			a.report, a.err = d.outline(ctx)
		default:
			a.report, a.err = d.explain(ctx, q.cluster)
		}
	}
	if isRemote {
		// The controller decides, and has turns of its own.
		decide()
	} else if err := l.turns.Do(ctx, q.key.Namespace, decide); err != nil {
		a.err = err
	}
	return a
}

// decideColumns decides the columns that are not known, until ctx or deciding ends. onLate is
// called with the lock held for each column that is decided after ctx has ended.
func (l *lockedWorld) decideColumns(ctx, deciding context.Context, keys []types.NamespacedName, onLate func(types.NamespacedName)) {
	l.mu.Lock()
	tasks, own := []*columnTask{}, map[string][]types.NamespacedName{}
	for _, key := range keys {
		if !l.world.isUndecided(key) {
			continue
		}
		task := l.deciding[key]
		if task == nil {
			if l.deciding == nil {
				l.deciding = map[types.NamespacedName]*columnTask{}
			}
			task = &columnTask{done: make(chan struct{})}
			l.deciding[key] = task
			own[key.Namespace] = append(own[key.Namespace], key)
		}
		tasks = append(tasks, task)
	}
	l.mu.Unlock()
	for namespace, keys := range own {
		go func() {
			for _, key := range keys {
				// An error means that nobody needs the column any more.
				_ = l.turns.Do(deciding, namespace, func() { l.decideColumn(deciding, key) })
				l.endColumn(key, onLate)
			}
		}()
	}
	for _, task := range tasks {
		select {
		case <-task.done:
		case <-ctx.Done():
			l.mu.Lock()
			task.late = true
			l.mu.Unlock()
		}
	}
}

// endColumn ends the task of a column.
func (l *lockedWorld) endColumn(key types.NamespacedName, onLate func(types.NamespacedName)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	task := l.deciding[key]
	delete(l.deciding, key)
	close(task.done)
	if task.late {
		onLate(key)
	}
}

// decideColumn decides one column, without the lock.
func (l *lockedWorld) decideColumn(ctx context.Context, key types.NamespacedName) {
	l.mu.Lock()
	d, err := l.world.beginColumn(key)
	l.mu.Unlock()
	if err != nil {
		return // It was deleted.
	}
	d.decide(ctx)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.storeColumn(d)
}

// columnEntry is the last column of a Placement.
type columnEntry struct {
	column Column
	// decided is true if there is a column. current is true if nothing has changed since.
	decided, current bool
	// drops counts the calls of dropColumn.
	drops int
}

// isUndecided reports whether a column must be decided. The controller decides those of a remote.
func (w *world) isUndecided(key types.NamespacedName) bool {
	if _, isRemote := w.decider.(*remote); isRemote || w.inventory.Placement(key) == nil {
		return false
	}
	e := w.columns[key]
	return e == nil || !e.current
}

// dropColumn marks a column as out of date. It is shown until it is decided again.
func (w *world) dropColumn(key types.NamespacedName) {
	if w.inventory.Placement(key) == nil {
		delete(w.columns, key)
	} else if e := w.columns[key]; e != nil {
		e.current = false
		e.drops++
	}
}

// columnDecision is the decision of a column, with the state of the world on which it depends.
type columnDecision struct {
	key   types.NamespacedName
	taken attempter
	has   []string
	names []string
	rows  []int32
	entry *columnEntry
	drops int
	// isWhatIf is that of the world.
	isWhatIf bool

	// The results: in cells, firstPlugin is the first of plugins.
	cells   []byte
	plugins []string
	wants   []string
	skipped string
	err     error
}

// beginColumn takes what a column depends on.
func (w *world) beginColumn(key types.NamespacedName) (*columnDecision, error) {
	subject := w.inventory.Subject(key)
	if subject == nil {
		return nil, fmt.Errorf("the Placement %q: %w", key, errUnknown)
	}
	taken, err := w.decider.begin(key)
	local, ok := taken.(attempter)
	if err == nil && !ok {
		err = errAsking
	}
	e := w.columns[key]
	if e == nil {
		e = &columnEntry{}
		w.columns[key] = e
	}
	return &columnDecision{
		key: key, taken: local, has: published(subject), wants: recordedTarget(subject), names: w.names, rows: w.rows, entry: e, drops: e.drops,
		isWhatIf: w.isWhatIf, err: err,
	}, nil
}

// decide fills the results.
func (d *columnDecision) decide(ctx context.Context) {
	d.cells = bytes.Repeat([]byte{noCandidate}, len(d.names))
	if d.err != nil {
		return
	}
	d.skipped, d.err = d.taken.attempt(ctx, func(a *scheduler.Attempt) {
		set := func(i int, as byte) {
			if i < len(d.rows) && d.rows[i] >= 0 {
				d.cells[d.rows[i]] = as
			}
		}
		for i := range a.EachCandidate {
			set(i, excluded)
		}
		for i, plugin := range a.EachExcluded {
			set(i, markOf(&d.plugins, plugin))
		}
		for _, c := range a.Feasible {
			set(c.Index, feasible)
		}
		if d.isWhatIf && a.Target != nil {
			d.wants = slices.Clone(a.Target.Clusters)
		}
	})
}

// storeColumn stores a column, unless the order of its cells is out of date.
func (w *world) storeColumn(d *columnDecision) {
	if w.columns[d.key] != d.entry {
		return
	}
	plugins := make([]byte, len(d.plugins))
	for i, name := range d.plugins {
		plugins[i] = markOf(&w.plugins, name)
	}
	for row, cell := range d.cells {
		if cell >= firstPlugin {
			d.cells[row] = plugins[cell-firstPlugin]
		}
	}
	d.entry.column = columnOf(d.key, d.names, d.cells, d.has, d.wants, d.skipped, d.err)
	d.entry.decided, d.entry.current = true, d.err == nil && d.entry.drops == d.drops
}

// columnOf returns a column with the published clusters, and what the open change or a what-if
// would change, beside the other cells.
func columnOf(key types.NamespacedName, names []string, cells []byte, has, wants []string, skipped string, err error) Column {
	mark := func(of []string, as byte) {
		for _, name := range of {
			if row, ok := slices.BinarySearch(names, name); ok {
				cells[row] = as
			}
		}
	}
	c := Column{Placement: key.String()}
	switch {
	case err != nil:
		// An error of one Placement must not hide the others. What is published is known.
		c.Note = err.Error()
		mark(names, unknown)
	case skipped != "":
		c.Note = "The Placement is not decided: it is " + skipped + "."
	}
	mark(has, selected)
	mark(changes.Minus(wants, has), addition)
	mark(changes.Minus(has, wants), removal)
	c.Cells = string(cells)
	return c
}

// maxMarks is how many plugins have a mark of their own; others have the last one.
const maxMarks = '~' - firstPlugin + 1

// markOf returns the mark of a plugin that excluded a cluster, and adds it to the known ones.
func markOf(plugins *[]string, name string) byte {
	i := slices.Index(*plugins, name)
	if i < 0 && len(*plugins) < maxMarks {
		i = len(*plugins)
		*plugins = append(*plugins, name)
	}
	if i < 0 {
		i = maxMarks - 1
	}
	return byte(firstPlugin + i)
}
