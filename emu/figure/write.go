package figure

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/emu/figure/canvas"
)

// dpi are the pixels of an inch of a PNG.
const dpi = 300

// Write draws the figure in a format: "pdf", "png" (300 dpi) or "svg". It writes nothing if
// something is wrong with the figure.
func (f *Figure) Write(w io.Writer, format string) error {
	if err := f.Check(); err != nil {
		return err
	}
	l, err := f.layOut()
	if err != nil {
		return err
	}
	c, err := canvas.New(format, l.size.X, l.size.Y, dpi)
	if err != nil {
		return err
	}
	l.draw(draw.NewCanvas(c, l.size.X, l.size.Y))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}

// Save writes the figure to a file, in the format that its name ends in: .pdf, .png or
// .svg. A file that is there is replaced at once or stays as it is.
func (f *Figure) Save(file string) error {
	format := strings.TrimPrefix(filepath.Ext(file), ".")
	if !slices.Contains(canvas.Formats, format) {
		return fmt.Errorf("%s: a picture's name ends in .%s", file, strings.Join(canvas.Formats, ", ."))
	}
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return renameio.WriteFile(file, b.Bytes(), 0o644)
}
