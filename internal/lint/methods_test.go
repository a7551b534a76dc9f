package lint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// templating are the packages outside of the standard library that import Go's templates and are linked into programs. None of them
// executes a template there.
var templating = []string{
	"github.com/DataDog/datadog-agent/pkg/template/text", // executes its own, which call no methods
	"github.com/Masterminds/sprig/v3",                    // has functions of templates
	"github.com/google/cel-go/cel",                       // for prompts, which are not used
	"github.com/spf13/cast",                              // converts its types
	"github.com/spf13/cobra",                             // for custom usage texts, which are not used
}

// TestLinkersDropMethods: Go's templates call methods by names that are known only at run time. If a program can execute one, the linker
// keeps all exported methods of all its types, which makes the program a fifth larger.
func TestLinkersDropMethods(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-tags=grpcnotrace", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if words[0] == "html/template" || !slices.Contains(words[1:], "text/template") && !slices.Contains(words[1:], "html/template") {
			continue
		}
		found = append(found, words[0])
		if !slices.Contains(templating, words[0]) {
			t.Errorf("%s imports Go's templates: let it use %s, or find out that no program executes one", words[0], templating[0])
		}
	}
	for _, name := range templating {
		if !slices.Contains(found, name) {
			t.Errorf("%s does not import Go's templates: remove it from the list", name)
		}
	}
}
