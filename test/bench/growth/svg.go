package main

import (
	"fmt"
	"math"
	"strings"
)

// plot is what a Placement costs, in microseconds, over something that grows; both axes are
// logarithmic.
type plot struct {
	Title, X                string
	Xs, First, Again, Whole []float64
}

// The drawing's size and the room its labels need, in pixels.
const (
	width, height = 640, 360
	left, right   = 70, 190
	top, bottom   = 40, 50
)

func (p plot) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="20" font-size="14">%s</text>`+"\n", width, height, left, p.Title)
	minX, maxX := decades(p.Xs)
	minY, maxY := decades(p.First, p.Again, p.Whole)
	x := func(v float64) float64 { return left + (math.Log10(v)-minX)/(maxX-minX)*(width-left-right) }
	y := func(v float64) float64 { return height - bottom - (math.Log10(v)-minY)/(maxY-minY)*(height-top-bottom) }
	for d := minX; d <= maxX; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(&b, `<path d="M%.0f %d V%d" stroke="#ddd"/><text x="%.0f" y="%d" text-anchor="middle">%.0f</text>`+"\n",
			x(v), top, height-bottom, x(v), height-bottom+16, v)
	}
	for d := minY; d <= maxY; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(&b, `<path d="M%d %.0f H%d" stroke="#ddd"/><text x="%d" y="%.0f" text-anchor="end">%.0f µs</text>`+"\n",
			left, y(v), width-right, left-6, y(v)+4, v)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-12, p.X)
	for n, s := range []struct {
		name, colour string
		ys           []float64
	}{{"one set, first decision", "#1f77b4", p.First}, {"one set, decided again", "#2ca02c", p.Again}, {"all clusters, decided again", "#d62728", p.Whole}} {
		var path []string
		for i, v := range s.ys {
			path = append(path, fmt.Sprintf("%.1f %.1f", x(p.Xs[i]), y(v)))
		}
		fmt.Fprintf(&b, `<path d="M%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " L"), s.colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", width-right+12, top+20+18*n, s.colour, s.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// decades are the powers of ten around the values, at least one apart.
func decades(lists ...[]float64) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, list := range lists {
		for _, v := range list {
			least, most = min(least, math.Floor(math.Log10(v))), max(most, math.Ceil(math.Log10(v)))
		}
	}
	return least, max(most, least+1)
}
