package lint

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostOfApp is how many lines the root of app may have: options, flags, and the list of parts. The number may only fall.
const mostOfApp = 1430

// App only composes: the code of a part is in a room below app, where it can be read, and tested, without the program.
func TestAppComposes(t *testing.T) {
	lines := 0
	for _, f := range repository(t) {
		if f.room != "app" || f.isTest() {
			continue
		}
		if path.Dir(f.path) != "internal/app" {
			if slices.Contains(imports(f), module+"/internal/app") {
				t.Errorf("%s imports app: hand it what it needs of the program", f.path)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.path)))
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines == 0 || lines > mostOfApp {
		t.Errorf("the root of app has %d lines of at most %d: move what does something into a room below it", lines, mostOfApp)
	}
}
