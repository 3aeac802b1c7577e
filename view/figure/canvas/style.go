package canvas

import (
	"image/color"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// Colours are the colours of Okabe and Ito (2008), which colour-blind readers can tell
// apart, without their yellow, which is hard to see on white.
var Colours = [8]color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{0, 0, 0, 255}, {86, 180, 233, 255}, {230, 159, 0, 255}, {130, 90, 60, 255},
}

// SansFont returns the font of pictures, Liberation Sans, which comes with gonum, at a size
// in points.
func SansFont(size float64) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size))
}
