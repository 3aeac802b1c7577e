package figure

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"gonum.org/v1/plot/vg/draw"

	"github.com/weftlab/weft/view/figure/canvas"
)

// dpi is the default resolution of PNGs.
const dpi = 300

// Write writes the figure in a format: "pdf", "png" or "svg". It writes nothing if the
// figure is invalid.
func (f *Figure) Write(w io.Writer, format string) error {
	if err := f.Check(); err != nil {
		return err
	}
	l, err := f.layOut()
	if err != nil {
		return err
	}
	c, err := canvas.New(format, l.size.X, l.size.Y, cmp.Or(f.DPI, dpi))
	if err != nil {
		return err
	}
	l.drawFigure(draw.NewCanvas(c, l.size.X, l.size.Y))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}

// Save writes the figure to a file, in the format given by its name: .pdf, .png or .svg. It
// replaces an existing file atomically.
func (f *Figure) Save(file string) error {
	format := strings.TrimPrefix(filepath.Ext(file), ".")
	if !slices.Contains(canvas.Formats, format) {
		return fmt.Errorf("%s: a picture's name must end in .%s", file, strings.Join(canvas.Formats, ", ."))
	}
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return renameio.WriteFile(file, b.Bytes(), 0o644)
}
