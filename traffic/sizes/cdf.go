package sizes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Point is a point of a cumulative distribution function.
type Point struct {
	Size    units.Bytes
	Percent float64 // percentage of flows that are not larger, 0 to 100
}

// CDF is a distribution given by points of its cumulative distribution function with
// straight lines between them: between two points all sizes have the same probability.
// Draws are rounded to the nearest byte, which does not change the mean because points
// are at whole bytes, and 0 becomes 1.
//
// Two points with the same size are a step: that share of flows has exactly this
// size. Two points with the same percentage are a gap: no flow has a size
// between them.
type CDF struct {
	size  []float64
	upTo  []float64 // shares, 0 to 1
	shown []Point
}

// NewCDF makes a distribution from at least two points; the first has 0%, the last 100%,
// and neither sizes nor percentages decrease.
func NewCDF(points []Point) (*CDF, error) {
	b := cdfBuilder{}
	for i, p := range points {
		if err := b.addPoint(p); err != nil {
			return nil, fmt.Errorf("point %d: %w", i+1, err)
		}
	}
	return b.makeCDF()
}

// ReadCDF reads a distribution in the format of HPCC's traffic generator: a line for each
// point, "BYTES PERCENT", in ascending order, from 0 percent to 100. Bytes may be written
// like 3e+07. Empty lines and text after a # are skipped. Errors name the line.
func ReadCDF(r io.Reader) (*CDF, error) {
	b := cdfBuilder{}
	lines := bufio.NewScanner(r)
	n := 0
	for lines.Scan() {
		n++
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		p, err := parsePoint(fields)
		if err == nil {
			err = b.addPoint(p)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	c, err := b.makeCDF()
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", max(n, 1), err)
	}
	return c, nil
}

func parsePoint(fields []string) (Point, error) {
	if len(fields) != 2 {
		return Point{}, fmt.Errorf("%d fields where BYTES PERCENT are expected", len(fields))
	}
	size, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || size != math.Trunc(size) || math.Abs(size) > 1<<53 {
		return Point{}, fmt.Errorf("%q is not a whole number of bytes", fields[0])
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(fields[1], "%"), 64)
	if err != nil {
		return Point{}, fmt.Errorf("%q is not a percentage", fields[1])
	}
	return Point{units.Bytes(size), percent}, nil
}

// cdfBuilder checks points as they come.
type cdfBuilder struct{ points []Point }

func (b *cdfBuilder) addPoint(p Point) error {
	if p.Size < 0 {
		return fmt.Errorf("a size of %d bytes: it must not be negative", int64(p.Size))
	}
	if !(p.Percent >= 0 && p.Percent <= 100) {
		return fmt.Errorf("%v percent: it must lie between 0 and 100", p.Percent)
	}
	if len(b.points) == 0 {
		if p.Percent != 0 {
			return fmt.Errorf("the first point has %v percent: begin with the smallest size and 0 percent (\"0 0\", or \"%d 0\" where flows of this size are meant)",
				p.Percent, int64(p.Size))
		}
	} else {
		last := b.points[len(b.points)-1]
		switch {
		case p.Size < last.Size:
			return fmt.Errorf("%d bytes after %d: sizes must rise", int64(p.Size), int64(last.Size))
		case p.Percent < last.Percent:
			return fmt.Errorf("%v percent after %v: the percentages are of flows that are not larger, so they must rise", p.Percent, last.Percent)
		case p == last:
			return errors.New("the same as the point before it")
		case p.Size == 0:
			return fmt.Errorf("%v percent of the flows would have 0 bytes", p.Percent)
		}
	}
	b.points = append(b.points, p)
	return nil
}

func (b *cdfBuilder) makeCDF() (*CDF, error) {
	if len(b.points) < 2 {
		return nil, fmt.Errorf("%d points of a distribution: at least two are needed", len(b.points))
	}
	switch last := b.points[len(b.points)-1].Percent; {
	case last == 1:
		return nil, errors.New("the last point has 1 percent, not 100: if these are shares, multiply them by 100")
	case last != 100:
		return nil, fmt.Errorf("the last point has %v percent, not 100", last)
	}
	c := &CDF{shown: b.points}
	for _, p := range b.points {
		c.size = append(c.size, float64(p.Size))
		c.upTo = append(c.upTo, p.Percent/100)
	}
	return c, nil
}

// Points returns the points of the distribution; the caller must not change them.
func (c *CDF) Points() []Point { return c.shown }

// Quantile returns the size that a share of the flows, 0 to 1, does not exceed, rounded
// to the nearest byte and at least 1 B.
func (c *CDF) Quantile(share float64) units.Bytes {
	i := sort.Search(len(c.upTo)-1, func(i int) bool { return c.upTo[i] > share })
	low, high := c.upTo[i-1], c.upTo[i]
	x := c.size[i-1]
	if share > low {
		x += (c.size[i] - x) * min((share-low)/(high-low), 1)
	}
	return wholeBytes(math.Floor(x + 0.5))
}

// DrawSize returns a size: the quantile of a uniformly drawn share.
func (c *CDF) DrawSize(r *rand.Rand) units.Bytes { return c.Quantile(r.Float64()) }

// MeanSize returns the mean of DrawSize.
func (c *CDF) MeanSize() float64 {
	mean := 0.0
	for i := 1; i < len(c.size); i++ {
		share := c.upTo[i] - c.upTo[i-1]
		mean += share * (c.size[i-1] + c.size[i]) / 2
		if c.size[i-1] == 0 {
			mean += share * 0.5 / c.size[i] // less than half a byte becomes 1, not 0
		}
	}
	return mean
}
