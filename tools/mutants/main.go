package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

type options struct {
	// number is how many mutants are tried; 0 is all of them.
	number  int
	seed    uint64
	workers int
	// then are tests that run where those of the mutated package notice nothing, last the patterns
	// of those that run if the others notice nothing either.
	then, last []string
	// again is the file with the output of an earlier run; only its survivors are tried.
	again string
}

func main() {
	var o options
	flag.IntVar(&o.number, "n", 200, "how many mutants to try; 0 tries all")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the sample; 0 draws one")
	flag.IntVar(&o.workers, "workers", runtime.NumCPU(), "mutants tried at once")
	then := flag.String("then", "./test/property,./test/golden", "packages whose tests run where those of the mutated package notice nothing")
	last := flag.String("last", "./pkg/...,./controllers/...", "packages whose tests run last, if they depend on the mutated one")
	flag.StringVar(&o.again, "again", "", "try only those that survived in this file, the output of an earlier run")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	o.then, o.last = fields(*then), fields(*last)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func run(ctx context.Context, o options, patterns []string) error {
	if len(patterns) == 0 {
		return errors.New("name the packages to mutate, as in ./pkg/decisions")
	}
	b, err := build(ctx, patterns, slices.Concat(o.then, o.last))
	if err != nil {
		return err
	}
	defer b.remove()
	sample, err := survivorsOf(o.again, b.mutants)
	if err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(o.seed, 0))
	order.Shuffle(len(sample), func(i, j int) { sample[i], sample[j] = sample[j], sample[i] })
	if o.number > 0 {
		sample = sample[:min(o.number, len(sample))]
	}
	fmt.Printf("seed %d: %d of %d mutants\n", o.seed, len(sample), len(b.mutants))
	t := &trial{build: b, then: o.then, queue: sample}
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() { t.work(ctx) })
	}
	workers.Wait()
	if err := errors.Join(context.Cause(ctx), t.failure); err != nil {
		return err
	}
	t.report(o.seed)
	return nil
}

// survivorsOf returns the mutants whose change and line of code the output in file says survived;
// all if there is no file.
func survivorsOf(file string, mutants []mutant) ([]mutant, error) {
	if file == "" {
		return slices.Clone(mutants), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	survived := map[[3]string]bool{}
	for i, line := range lines[:len(lines)-1] {
		if match := survivor.FindStringSubmatch(line); match != nil {
			survived[[3]string{match[1], match[2], strings.TrimSpace(lines[i+1])}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !survived[[3]string{m.file, m.what, m.code}] }), nil
}

var survivor = regexp.MustCompile(`^survived: (.*?):\d+:\d+ (.*?)( \(no test runs this line\))?$`)

// trial runs the tests on one mutant after the other.
type trial struct {
	build *built
	then  []string

	mu        sync.Mutex
	queue     []mutant
	tried     int
	failure   error
	survivors []mutant
}

func (t *trial) next(ctx context.Context) (mutant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil || t.failure != nil || len(t.queue) == 0 {
		return mutant{}, false
	}
	m := t.queue[0]
	t.queue = t.queue[1:]
	return m, true
}

func (t *trial) work(ctx context.Context) {
	for {
		m, ok := t.next(ctx)
		if !ok {
			return
		}
		begin := time.Now()
		by, err := t.try(ctx, m)
		t.mu.Lock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.failure = errors.Join(t.failure, err)
		default:
			t.tried++
			became := "killed"
			if by == "" {
				became = "SURVIVED"
				t.survivors = append(t.survivors, m)
			}
			fmt.Printf("%3d %-8s %s:%d:%d %s (%s %.1f s)\n", t.tried, became, m.file, m.line, m.column, m.what, by, time.Since(begin).Seconds())
		}
		t.mu.Unlock()
	}
}

// try returns the package whose tests fail with m, the nearest first, or "".
func (t *trial) try(ctx context.Context, m mutant) (string, error) {
	own := "./" + m.dir
	for _, tests := range slices.Concat([]string{own}, t.then, t.build.importers[m.dir]) {
		fails, err := t.build.fails(ctx, tests, m)
		if fails || err != nil {
			return tests, err
		}
	}
	return "", nil
}

func (t *trial) report(seed uint64) {
	slices.SortFunc(t.survivors, func(a, b mutant) int { return a.number - b.number })
	noticed := t.tried - len(t.survivors)
	fmt.Printf("\nseed %d: %d of %d mutants killed, %.1f %%\n", seed, noticed, t.tried, 100*float64(noticed)/float64(max(t.tried, 1)))
	for _, m := range t.survivors {
		reached := ""
		if !t.build.reachedByAny(m) {
			reached = " (no test runs this line)"
		}
		fmt.Printf("survived: %s:%d:%d %s%s\n\t%s\n", m.file, m.line, m.column, m.what, reached, m.code)
	}
}
