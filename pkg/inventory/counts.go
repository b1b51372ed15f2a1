package inventory

import "github.com/berth-dev/berth/pkg/scheduler/framework"

// decisionCounts counts the decisions on each cluster, and the clusters with each count.
type decisionCounts struct {
	byIndex   framework.Vector[int32]
	histogram []int32
	frozen    *framework.DecisionCounts
	// log has the indexes of the changed counts.
	log framework.Log[int32]
}

// maxCountLog is the maximum number of changes that are kept.
const maxCountLog = 4096

func (c *decisionCounts) add(i int, n int32) {
	old := c.byIndex.Get(i)
	c.byIndex.Set(i, old+n)
	c.frozen = nil
	c.log.Append(int32(i), maxCountLog)
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
		c.frozen = &framework.DecisionCounts{ByIndex: c.byIndex.Freeze(), Histogram: append([]int32(nil), c.histogram...), Changes: c.log.Next()}
	}
	return c.frozen
}
