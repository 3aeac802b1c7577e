package canvas

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// sansText returns the style of black text, left-aligned and vertically centred at its point.
func sansText(size float64) text.Style {
	return text.Style{Color: color.Black, Font: SansFont(size), XAlign: text.XLeft, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
}

// render draws everything that a canvas can: a red disc at the left, a dashed blue
// line, horizontal and vertical text, a translucent square, and an image of two pixels.
func render(t *testing.T, format string) []byte {
	t.Helper()
	const width, height = 200, 100
	c, err := New(format, width, height, 144)
	if err != nil {
		t.Fatal(err)
	}
	if w, h := c.Size(); w != width || h != height {
		t.Errorf("%s: %v × %v", format, w, h)
	}
	d := draw.NewCanvas(c, width, height)
	d.SetColor(color.White)
	d.Fill(d.Rectangle.Path())
	var disc vg.Path
	disc.Arc(vg.Point{X: 30, Y: 50}, 20, 0, 2*math.Pi)
	disc.Close()
	d.SetColor(color.NRGBA{200, 0, 0, 255})
	d.Fill(disc)
	d.Push()
	d.StrokeLine2(draw.LineStyle{Color: Colours[0], Width: 2, Dashes: []vg.Length{6, 2}}, 60, 10, 190, 10)
	d.Pop()
	d.FillText(sansText(10), vg.Point{X: 60, Y: 80}, "α ≤ 1 µs × Größe")
	up := sansText(10)
	up.Rotation = math.Pi / 2
	d.FillText(up, vg.Point{X: 150, Y: 30}, "upright")
	d.FillText(sansText(8), vg.Point{X: 60, Y: 60}, "smaller")
	d.SetColor(color.NRGBA{0, 0, 0, 64})
	d.Fill(vg.Rectangle{Min: vg.Point{X: 30, Y: 50}, Max: vg.Point{X: 55, Y: 75}}.Path())
	pixels := image.NewNRGBA(image.Rect(0, 0, 1, 2))
	pixels.Set(0, 0, color.NRGBA{0, 158, 0, 255}) // upper pixel
	pixels.Set(0, 1, color.NRGBA{0, 0, 158, 255})
	d.DrawImage(vg.Rectangle{Min: vg.Point{X: 170, Y: 40}, Max: vg.Point{X: 190, Y: 80}}, pixels)
	var b bytes.Buffer
	if n, err := c.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatalf("%s: %d bytes of %d, %v", format, n, b.Len(), err)
	}
	return b.Bytes()
}

// TestSameBytes checks that drawing again gives the same bytes.
func TestSameBytes(t *testing.T) {
	for _, f := range Formats {
		first := render(t, f)
		for range 5 {
			if !bytes.Equal(first, render(t, f)) {
				t.Errorf("%s: other bytes", f)
			}
		}
	}
}

func at(t *testing.T, i image.Image, x, y int, want color.NRGBA) {
	t.Helper()
	r, g, b, _ := i.At(x, y).RGBA()
	for _, d := range []int{int(r>>8) - int(want.R), int(g>>8) - int(want.G), int(b>>8) - int(want.B)} {
		if d > 24 || d < -24 {
			t.Errorf("at %d, %d: %d %d %d, want %v", x, y, r>>8, g>>8, b>>8, want)
			return
		}
	}
}

// look checks that a picture with two pixels per point shows what render draws.
func look(t *testing.T, i image.Image) {
	t.Helper()
	if got := i.Bounds().Size(); got != (image.Point{400, 200}) {
		t.Fatalf("%v", got)
	}
	at(t, i, 50, 100, color.NRGBA{200, 0, 0, 255})
	at(t, i, 5, 5, color.NRGBA{255, 255, 255, 255})
	at(t, i, 66, 90, color.NRGBA{150, 0, 0, 255})    // under the square
	at(t, i, 106, 56, color.NRGBA{191, 191, 191, 0}) // only the square
	at(t, i, 124, 180, Colours[0])                   // a dash
	at(t, i, 134, 180, color.NRGBA{255, 255, 255, 255})
	at(t, i, 360, 45, color.NRGBA{0, 158, 0, 255})
	at(t, i, 360, 155-40, color.NRGBA{0, 0, 158, 255})
}

func TestPNG(t *testing.T) {
	b := render(t, "png")
	i, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	look(t, i)
	// 144 pixels per inch are 5669 per metre.
	if !bytes.Contains(b, []byte("\x00\x00\x00\x09pHYs\x00\x00\x16\x25\x00\x00\x16\x25\x01")) {
		t.Error("no pHYs")
	}
}

func TestSVG(t *testing.T) {
	s := string(render(t, "svg"))
	if strings.Count(s, "font-family:'Liberation Sans',Arimo,Arial") != 3 || !strings.Contains(s, ">α ≤ 1 µs × Größe</text>") {
		t.Errorf("%s", s)
	}
}

// TestPDF checks that the document does not contain today's date, and that its font
// subsets contain Greek. If poppler is available, it also checks the rendering.
func TestPDF(t *testing.T) {
	b := render(t, "pdf")
	for _, want := range []string{"/CreationDate (D:19700101000000)", "/ModDate (D:19700101000000)", "/FontFile2", "/ToUnicode", "/MediaBox [0 0 200.00 100.00]"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
	if len(b) > 60_000 {
		t.Errorf("%d bytes: the whole font", len(b))
	}
	if _, err := exec.LookPath("pdftoppm"); err != nil {
		t.Skip("no pdftoppm, which would draw it: apt-get install poppler-utils")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.pdf")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("pdftoppm", "-r", "144", "-png", "-singlefile", file, filepath.Join(dir, "a")).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	drawn, err := os.Open(filepath.Join(dir, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer drawn.Close()
	i, err := png.Decode(drawn)
	if err != nil {
		t.Fatal(err)
	}
	look(t, i)
	text, err := exec.Command("pdftotext", file, "-").Output()
	if err != nil || !strings.Contains(string(text), "α ≤ 1 µs × Größe") {
		t.Errorf("%v: it reads %q", err, text)
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := New("gif", 1, 1, 72); err == nil || !strings.Contains(err.Error(), "use pdf, png, svg") {
		t.Errorf("%v", err)
	}
}
