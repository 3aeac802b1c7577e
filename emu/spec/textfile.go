package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// textFile is the name of a file with a text, relative to the file in which it is written,
// or the text itself: what has several lines is no name.
type textFile string

// maxText bounds the files that a lab brings in.
const maxText = 256 << 20

// text gives what a textFile stands for, and its name for errors. What was read from a
// file goes into the canonical text of the lab, so that this needs no files.
func (v *resolver) text(f *textFile, what string) (name, text string, ok bool) {
	if strings.Contains(string(*f), "\n") {
		return what, string(*f), true
	}
	name = string(*f)
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(v.FileOf(f)), path)
	}
	src, err := readText(path)
	if err != nil {
		v.Fail(f, "a path is relative to the file in which it is written", "%s cannot be read: %v", name, err)
		return name, "", false
	}
	text = string(src)
	if !strings.Contains(text, "\n") {
		text += "\n"
	}
	v.Inline(f, text)
	return name, text, true
}

// readText reads a regular file: others may never end, or never answer.
func readText(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Size() > maxText:
		return nil, fmt.Errorf("%s is longer than %d MiB", path, maxText>>20)
	}
	return os.ReadFile(path)
}
