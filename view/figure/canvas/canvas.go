// Package canvas provides the canvases that pictures are drawn on, one for each format.
// Their output depends only on what is drawn, the font, and the colours.
package canvas

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Formats lists the formats of pictures.
var Formats = []string{"pdf", "png", "svg"}

// New returns a canvas in one of the formats. The dpi applies only to PNG; SVG and PDF
// have no pixels. The background is transparent in PDF and SVG, and white in PNG.
func New(format string, width, height vg.Length, dpi int) (vg.CanvasWriterTo, error) {
	switch format {
	case "png":
		return pngCanvas{vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}, dpi}, nil
	case "svg":
		return svgCanvas{vgsvg.New(width, height)}, nil
	case "pdf":
		return newPDF(width, height), nil
	}
	return nil, fmt.Errorf("unknown picture format %q: use %s", format, strings.Join(Formats, ", "))
}

// pngCanvas writes PNGs that contain their resolution.
type pngCanvas struct {
	vgimg.PngCanvas
	dpi int
}

// WriteTo implements io.WriterTo. After the header it inserts the resolution (pHYs, in
// pixels per metre: PNG 1.2, 11.3.5.3), from which LaTeX and others determine the size.
func (c pngCanvas) WriteTo(w io.Writer) (int64, error) {
	const signature, header = 8, 4 + 4 + 13 + 4
	var b bytes.Buffer
	if _, err := c.PngCanvas.WriteTo(&b); err != nil {
		return 0, err
	}
	perMetre := uint32(math.Round(float64(c.dpi) / 0.0254))
	chunk := append([]byte("\x00\x00\x00\x09"), "pHYs"...)
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = append(chunk, 1) // the unit is the metre
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	rest := b.Bytes()
	return writeAll(w, rest[:signature+header], chunk, rest[signature+header:])
}

// svgCanvas writes SVGs whose text keeps its widths if the font is missing.
type svgCanvas struct{ *vgsvg.Canvas }

// WriteTo implements io.WriterTo.
func (c svgCanvas) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := c.Canvas.WriteTo(&b); err != nil {
		return 0, err
	}
	// Arimo, Arial and Helvetica have the metrics of Liberation Sans.
	return writeAll(w, bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;")))
}

func writeAll(w io.Writer, parts ...[]byte) (n int64, err error) {
	for _, p := range parts {
		m, err := w.Write(p)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
