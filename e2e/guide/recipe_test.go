package guide

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// recipe is a section of a page: its files and what is typed into a shell.
type recipe struct {
	title string
	files map[string]string // by name
	steps []step
}

// step is a command of a recipe.
type step struct {
	command string
	input   string   // what is typed into a debugger
	output  []string // lines that the page shows; "..." stands for any number of others
}

var (
	block    = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")
	fileName = regexp.MustCompile("`([a-z-]+\\.(?:yaml|cm|c))`")
	labName  = regexp.MustCompile(`(?m)^name: (\S+)$`)
)

// readRecipes reads the sections of a page.
func readRecipes(t *testing.T, page string) (all []recipe) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		r := recipe{title: title, files: map[string]string{}}
		end := 0
		for _, m := range block.FindAllStringSubmatchIndex(body, -1) {
			before, kind, content := body[end:m[0]], body[m[2]:m[3]], body[m[4]:m[5]]
			end = m[1]
			// The file that the text before a block names last.
			name := ""
			if all := fileName.FindAllStringSubmatch(before, -1); len(all) > 0 {
				name = all[len(all)-1][1]
			}
			switch {
			case kind == "yaml":
				lab := labName.FindStringSubmatch(content)
				if lab == nil {
					t.Fatalf("%s, %s: a lab has no name", page, title)
				}
				if name == "" {
					name = lab[1] + ".yaml"
				}
				r.files[name] = content
			case strings.HasPrefix(content, "$ "):
				r.steps = append(r.steps, readSteps(content)...)
			case strings.HasPrefix(content, "weft "):
				r.steps = append(r.steps, readScript(content)...)
			case strings.HasSuffix(name, ".cm"), kind == "c":
				r.files[name] = content
			}
		}
		all = append(all, r)
	}
	return all
}

// readSteps reads commands after "$ " and what they print. What is typed into gdb is after its prompt.
func readSteps(text string) (steps []step) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{command: command})
			continue
		}
		last := &steps[len(steps)-1]
		if typed, ok := strings.CutPrefix(line, "(gdb) "); ok {
			last.input += typed + "\n"
		} else if line != "" {
			last.output = append(last.output, line)
		}
	}
	return steps
}

// readScript reads commands without prompts. A loop is one command.
func readScript(text string) (steps []step) {
	var loop string
	for line := range strings.Lines(text) {
		loop += line
		if strings.HasPrefix(loop, "for ") && line != "done\n" {
			continue
		}
		steps = append(steps, step{command: strings.TrimSpace(loop)})
		loop = ""
	}
	return steps
}
