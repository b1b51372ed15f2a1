package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is what became of a mutant.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
	// invalid mutants do not compile and do not count.
	invalid outcome = "invalid"
)

type options struct {
	number  int
	seed    uint64
	workers int
	// then are tests that run where those of the mutated package notice nothing, last the patterns
	// of those that run if the others notice nothing either.
	then, last []string
}

func main() {
	var o options
	flag.IntVar(&o.number, "n", 200, "how many mutants to try")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the sample; 0 draws one")
	flag.IntVar(&o.workers, "workers", runtime.NumCPU(), "mutants tried at once")
	then := flag.String("then", "./test/property,./test/golden", "packages whose tests run where those of the mutated package notice nothing")
	last := flag.String("last", "./pkg/...,./controllers/...", "packages whose tests run last, if they depend on the mutated one")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	o.then, o.last = strings.Split(*then, ","), strings.Split(*last, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, patterns []string) error {
	if len(patterns) == 0 {
		return errors.New("name the packages to mutate, as in ./pkg/decisions")
	}
	packages, err := list(ctx, patterns...)
	if err != nil {
		return err
	}
	all, err := allMutants(packages)
	if err != nil {
		return err
	}
	importers, err := importersOf(ctx, o.last)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d: %d of %d mutants in %d packages\n", o.seed, min(o.number, len(all)), len(all), len(packages))
	order := rand.New(rand.NewPCG(o.seed, 0))
	order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	t := &trial{options: o, importers: importers, queue: all, limits: map[string]func() (time.Duration, error){}}
	t.changed = sync.NewCond(&t.mu)
	if t.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	var workers sync.WaitGroup
	for i := range o.workers {
		workers.Go(func() { t.work(ctx, i) })
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return t.report()
}

func allMutants(packages []goPackage) ([]mutant, error) {
	var all []mutant
	for _, p := range packages {
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			found, err := mutantsOf(p.relative, filepath.Join(p.relative, file), text)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// trial tries mutants until enough of them compiled.
type trial struct {
	options
	dir       string
	importers map[string][]string

	mu        sync.Mutex
	changed   *sync.Cond // running or tried
	limits    map[string]func() (time.Duration, error)
	queue     []mutant
	running   int
	tried     int
	failure   error
	survivors []mutant
}

// next returns a mutant. It waits while those that are being tried may be enough: some may not
// compile.
func (t *trial) next(ctx context.Context) (mutant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.running > 0 && t.tried+t.running >= t.number {
		t.changed.Wait()
	}
	if ctx.Err() != nil || t.failure != nil || len(t.queue) == 0 || t.tried >= t.number {
		return mutant{}, false
	}
	m := t.queue[0]
	t.queue = t.queue[1:]
	t.running++
	return m, true
}

func (t *trial) work(ctx context.Context, worker int) {
	for {
		m, ok := t.next(ctx)
		if !ok {
			return
		}
		begin := time.Now()
		became, by, err := t.try(ctx, worker, m)
		t.mu.Lock()
		t.running--
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.failure = errors.Join(t.failure, err)
		case became == invalid:
		default:
			t.tried++
			if became == survived {
				t.survivors = append(t.survivors, m)
			}
			fmt.Printf("%3d %-8s %s:%d:%d %s (%s%.0f s)\n", t.tried, became, m.file, m.line, m.column, m.what, by, time.Since(begin).Seconds())
		}
		t.changed.Broadcast()
		t.mu.Unlock()
	}
}

// try runs the tests that should notice, the nearest first.
func (t *trial) try(ctx context.Context, worker int, m mutant) (became outcome, by string, err error) {
	overlay, err := t.overlay(worker, m)
	if err != nil {
		return "", "", err
	}
	own := "./" + m.dir
	stages := append([]string{own}, t.then...)
	for _, p := range t.importers[m.dir] {
		if !slices.Contains(stages, "./"+p) {
			stages = append(stages, "./"+p)
		}
	}
	for _, tests := range stages {
		limit, err := t.limit(ctx, tests)
		if err != nil {
			return "", "", err
		}
		became, err := test(ctx, tests, "-overlay", overlay, "-failfast", "-timeout", limit.String())
		if err != nil || became != survived {
			return became, strings.TrimPrefix(tests, "./") + ", ", err
		}
	}
	return survived, "", nil
}

// overlay writes the changed file, and the overlay file for the compiler.
func (t *trial) overlay(worker int, m mutant) (string, error) {
	changed := slices.Concat(m.source[:m.start:m.start], []byte(m.text), m.source[m.end:])
	file := filepath.Join(t.dir, fmt.Sprintf("%d.go", worker))
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(t.dir, fmt.Sprintf("%d.json", worker))
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// limit is how long tests of a package may take: much longer than without a change.
func (t *trial) limit(ctx context.Context, tests string) (time.Duration, error) {
	t.mu.Lock()
	measure := t.limits[tests]
	if measure == nil {
		measure = sync.OnceValues(func() (time.Duration, error) {
			begin := time.Now()
			became, err := test(ctx, tests, "-count", "1")
			if err == nil && became != survived {
				err = fmt.Errorf("the tests of %s fail without any change: run them with go test -count 10", tests)
			}
			return 20*time.Second + 4*time.Since(begin), err
		})
		t.limits[tests] = measure
	}
	t.mu.Unlock()
	return measure()
}

// test runs the tests of a package and says what they make of the code.
func test(ctx context.Context, tests string, flags ...string) (outcome, error) {
	arguments := append(append([]string{"test", "-vet=off", "-p", "1"}, flags...), tests)
	output, err := exec.CommandContext(ctx, "go", arguments...).CombinedOutput()
	if err == nil {
		return survived, nil
	}
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
		return "", err
	}
	switch text := string(output); {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return invalid, nil
	case strings.Contains(text, "FAIL"):
		return killed, nil
	}
	return "", fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, output)
}

func (t *trial) report() error {
	if t.failure != nil {
		return t.failure
	}
	slices.SortFunc(t.survivors, func(a, b mutant) int {
		return strings.Compare(fmt.Sprintf("%s:%6d:%6d", a.file, a.line, a.column), fmt.Sprintf("%s:%6d:%6d", b.file, b.line, b.column))
	})
	noticed := t.tried - len(t.survivors)
	fmt.Printf("\nseed %d: %d of %d mutants killed, %.1f %%\n", t.seed, noticed, t.tried, 100*float64(noticed)/float64(max(t.tried, 1)))
	for _, m := range t.survivors {
		fmt.Printf("survived: %s:%d:%d %s\n\t%s\n", m.file, m.line, m.column, m.what, sourceLine(m))
	}
	return nil
}

func sourceLine(m mutant) string {
	return strings.TrimSpace(strings.Split(string(m.source), "\n")[m.line-1])
}
