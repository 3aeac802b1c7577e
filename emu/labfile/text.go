package labfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftlab/weft/emu/yamlfile"
)

// TextFile is the name of a text file, relative to the file in which it is written, or the
// text itself if it has several lines.
type TextFile string

// maxText bounds the files that a lab includes.
const maxText = 256 << 20

// Read returns the text and its name for errors, which is what if the text is in the lab
// file itself. Text that was read from a file becomes part of the canonical text of the
// lab, which therefore needs no other files. After a fault, which r collects, ok is false.
func (f *TextFile) Read(r *yamlfile.Reader, what string) (name, text string, ok bool) {
	if strings.Contains(string(*f), "\n") {
		return what, string(*f), true
	}
	name = string(*f)
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.FileOf(f)), path)
	}
	src, err := readText(path)
	if err != nil {
		r.ReportFault(f, "paths are relative to the file that contains them", "%s cannot be read: %v", name, err)
		return name, "", false
	}
	text = string(src)
	if !strings.Contains(text, "\n") {
		text += "\n"
	}
	r.InlineText(f, text)
	return name, text, true
}

// readText reads a regular file: reading others may never end, or block.
func readText(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxText:
		return nil, fmt.Errorf("%s is longer than %d MiB", path, maxText>>20)
	}
	return os.ReadFile(path)
}
