package inventory

import "github.com/berth-dev/berth/pkg/scheduler/framework"

// decisionCounts counts the decisions on each cluster, and the clusters with each count.
type decisionCounts struct {
	byIndex   framework.Vector[int32]
	histogram []int32
	frozen    *framework.DecisionCounts
	// log has the indexes of the changed counts in their order; the first is number first, counted
	// from 0.
	log   []int32
	first uint64
}

// maxCountLog is the maximum number of changes that are kept.
const maxCountLog = 4096

func (c *decisionCounts) add(i int, n int32) {
	old := c.byIndex.Get(i)
	c.byIndex.Set(i, old+n)
	c.frozen = nil
	if c.log = append(c.log, int32(i)); len(c.log) > maxCountLog {
		dropped := len(c.log) / 2
		c.log, c.first = append([]int32(nil), c.log[dropped:]...), c.first+uint64(dropped)
	}
	for int(old+n) >= len(c.histogram) {
		c.histogram = append(c.histogram, 0)
	}
	if old > 0 {
		c.histogram[old]--
	}
	if old+n > 0 {
		c.histogram[old+n]++
	}
	for len(c.histogram) > 0 && c.histogram[len(c.histogram)-1] == 0 {
		c.histogram = c.histogram[:len(c.histogram)-1]
	}
}

func (c *decisionCounts) freeze() *framework.DecisionCounts {
	if c.frozen == nil {
		c.frozen = &framework.DecisionCounts{ByIndex: c.byIndex.Freeze(), Histogram: append([]int32(nil), c.histogram...), Changes: c.changes()}
	}
	return c.frozen
}

// changes is the number of changes until now.
func (c *decisionCounts) changes() uint64 { return c.first + uint64(len(c.log)) }

// since returns the indexes of the counts that have changed after a number of changes. It returns
// false if some of them were dropped.
func (c *decisionCounts) since(n uint64) ([]int32, bool) {
	if n < c.first || n > c.changes() {
		return nil, false
	}
	return c.log[n-c.first:], true
}

// current returns the counts as they are now. They are valid until the next change.
func (c *decisionCounts) current() *framework.DecisionCounts {
	return &framework.DecisionCounts{ByIndex: &c.byIndex, Histogram: c.histogram, Changes: c.changes()}
}
