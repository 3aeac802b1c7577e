package figure

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
func (f *Figure) Save(file string) (err error) {
	format := strings.TrimPrefix(filepath.Ext(file), ".")
	if !slices.Contains(canvas.Formats, format) {
		return fmt.Errorf("%s: a picture's name ends in .%s", file, strings.Join(canvas.Formats, ", ."))
	}
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	t, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.Close() // a second time perhaps
			os.Remove(t.Name())
		}
	}()
	if _, err := b.WriteTo(t); err != nil {
		return err
	}
	if err := t.Chmod(0o644); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return os.Rename(t.Name(), file)
}
