package canvas

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// pdfCanvas is a PDF of one page. gonum's own (vgpdf) writes text in code page 1252,
// which lacks the Greek letters of formulas, embeds the whole font, and includes the time
// of day.
type pdfCanvas struct {
	doc           *fpdf.Fpdf
	width, height vg.Length
	fonts         map[string]bool
	images        int
	lines         []vg.Length // line widths, as pushed
}

func newPDF(width, height vg.Length) *pdfCanvas {
	doc := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: width.Points(), Ht: height.Points()}})
	// Drawing again gives the same bytes.
	epoch := time.Unix(0, 0).UTC()
	doc.SetCreationDate(epoch)
	doc.SetModificationDate(epoch)
	doc.SetCatalogSort(true)
	doc.SetProducer("", false)
	doc.SetMargins(0, 0, 0)
	doc.SetAutoPageBreak(false, 0)
	doc.AddPage()
	doc.SetLineJoinStyle("round")
	c := &pdfCanvas{doc: doc, width: width, height: height, fonts: map[string]bool{}, lines: make([]vg.Length, 1)}
	// fpdf's origin is at the top.
	doc.TransformBegin()
	doc.TransformTranslate(0, height.Points())
	doc.TransformScale(100, -100, 0, 0)
	vg.Initialize(c)
	return c
}

// Size implements vg.CanvasSizer.
func (c *pdfCanvas) Size() (width, height vg.Length) { return c.width, c.height }

// SetLineWidth implements vg.Canvas.
func (c *pdfCanvas) SetLineWidth(w vg.Length) {
	c.lines[len(c.lines)-1] = w
	c.doc.SetLineWidth(w.Points())
}

// SetLineDash implements vg.Canvas.
func (c *pdfCanvas) SetLineDash(pattern []vg.Length, offset vg.Length) {
	lengths := make([]float64, len(pattern))
	for i, p := range pattern {
		lengths[i] = p.Points()
	}
	c.doc.SetDashPattern(lengths, offset.Points())
}

// SetColor implements vg.Canvas.
func (c *pdfCanvas) SetColor(colour color.Color) {
	if colour == nil {
		colour = color.Black
	}
	n := color.NRGBAModel.Convert(colour).(color.NRGBA)
	r, g, b := int(n.R), int(n.G), int(n.B)
	c.doc.SetFillColor(r, g, b)
	c.doc.SetDrawColor(r, g, b)
	c.doc.SetTextColor(r, g, b)
	c.doc.SetAlpha(float64(n.A)/math.MaxUint8, "Normal")
}

// Rotate implements vg.Canvas.
func (c *pdfCanvas) Rotate(rad float64) { c.doc.TransformRotate(-rad*180/math.Pi, 0, 0) }

// Translate implements vg.Canvas.
func (c *pdfCanvas) Translate(p vg.Point) { c.doc.TransformTranslate(p.X.Points(), p.Y.Points()) }

// Scale implements vg.Canvas.
func (c *pdfCanvas) Scale(x, y float64) { c.doc.TransformScale(x*100, y*100, 0, 0) }

// Push implements vg.Canvas.
func (c *pdfCanvas) Push() {
	c.lines = append(c.lines, c.lines[len(c.lines)-1])
	c.doc.TransformBegin()
}

// Pop implements vg.Canvas.
func (c *pdfCanvas) Pop() {
	c.doc.TransformEnd()
	c.lines = c.lines[:len(c.lines)-1]
}

// Stroke implements vg.Canvas.
func (c *pdfCanvas) Stroke(p vg.Path) {
	if c.lines[len(c.lines)-1] > 0 {
		c.drawPath(p, "D")
	}
}

// Fill implements vg.Canvas.
func (c *pdfCanvas) Fill(p vg.Path) { c.drawPath(p, "F") }

func (c *pdfCanvas) drawPath(p vg.Path, style string) {
	for i, comp := range p {
		x, y := comp.Pos.X.Points(), comp.Pos.Y.Points()
		switch comp.Type {
		case vg.MoveComp:
			// An arc sets its own start.
			if i+1 == len(p) || p[i+1].Type != vg.ArcComp {
				c.doc.MoveTo(x, y)
			}
		case vg.LineComp:
			c.doc.LineTo(x, y)
		case vg.ArcComp:
			c.addArc(comp, i > 0 && p[i-1].Type != vg.MoveComp)
		case vg.CurveComp:
			last := comp.Control[len(comp.Control)-1]
			if len(comp.Control) == 1 {
				c.doc.CurveTo(last.X.Points(), last.Y.Points(), x, y)
			} else {
				c.doc.CurveBezierCubicTo(comp.Control[0].X.Points(), comp.Control[0].Y.Points(), last.X.Points(), last.Y.Points(), x, y)
			}
		case vg.CloseComp:
			c.doc.ClosePath()
		}
	}
	c.doc.DrawPath(style)
}

// addArc adds an arc as curves of at most a sixth of a circle; joined if a line leads to it.
func (c *pdfCanvas) addArc(comp vg.PathComp, joined bool) {
	at := func(angle, radius float64) (x, y float64) {
		sin, cos := math.Sincos(angle)
		return comp.Pos.X.Points() + radius*cos, comp.Pos.Y.Points() + radius*sin
	}
	r := comp.Radius.Points()
	x, y := at(comp.Start, r)
	if joined {
		c.doc.LineTo(x, y)
	} else {
		c.doc.MoveTo(x, y)
	}
	n := math.Ceil(math.Abs(comp.Angle) / (math.Pi / 3))
	step := comp.Angle / n
	reach := 4.0 / 3 * math.Tan(step/4) * r
	for i := range int(n) {
		from := comp.Start + float64(i)*step
		to := from + step
		x0, y0 := at(from, r)
		x3, y3 := at(to, r)
		c.doc.CurveBezierCubicTo(x0-reach*math.Sin(from), y0+reach*math.Cos(from), x3+reach*math.Sin(to), y3-reach*math.Cos(to), x3, y3)
	}
}

// FillString implements vg.Canvas. The document embeds only the characters that are used.
func (c *pdfCanvas) FillString(f font.Face, p vg.Point, text string) {
	if f.Font.Size == 0 {
		return
	}
	name := f.Name()
	if !c.fonts[name] {
		c.fonts[name] = true
		var ttf bytes.Buffer
		if _, err := f.Face.WriteSourceTo(nil, &ttf); err != nil {
			c.doc.SetError(fmt.Errorf("font %s: %w", name, err))
			return
		}
		c.doc.AddUTF8FontFromBytes(name, "", ttf.Bytes())
	}
	c.doc.SetFont(name, "", f.Font.Size.Points())
	c.doc.TransformBegin()
	c.doc.TransformTranslate(p.X.Points(), p.Y.Points())
	c.doc.TransformScale(100, -100, 0, 0)
	c.doc.Text(0, 0, text)
	c.doc.TransformEnd()
}

// DrawImage implements vg.Canvas.
func (c *pdfCanvas) DrawImage(r vg.Rectangle, img image.Image) {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		c.doc.SetError(err)
		return
	}
	c.images++
	name, options := fmt.Sprint("image", c.images), fpdf.ImageOptions{ImageType: "png"}
	c.doc.RegisterImageOptionsReader(name, options, &b)
	size := r.Size()
	c.doc.TransformBegin()
	c.doc.SetAlpha(1, "Normal")
	c.doc.TransformTranslate(r.Min.X.Points(), r.Max.Y.Points())
	c.doc.TransformScale(100, -100, 0, 0)
	c.doc.ImageOptions(name, 0, 0, size.X.Points(), size.Y.Points(), false, options, 0, "")
	c.doc.TransformEnd()
}

// WriteTo implements io.WriterTo. Nothing can be drawn after it.
func (c *pdfCanvas) WriteTo(w io.Writer) (int64, error) {
	c.doc.TransformEnd()
	var b bytes.Buffer
	if err := c.doc.Output(&b); err != nil {
		return 0, err
	}
	return b.WriteTo(w)
}
