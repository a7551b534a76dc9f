package lint

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// variablePattern is how names of environment variables look.
var variablePattern = regexp.MustCompile(`^([A-Z][A-Z0-9]*_)+[A-Z0-9]+$`)

// readingRooms read environment variables, or write them for other programs.
var readingRooms = []string{"agent", "app", "ctl", "dev", "inject"}

// notVariables are other words that look so: node metadata, capabilities, and values of enumerations.
var notVariables = []string{
	"AUTO_REGISTER_GROUP", "CAP_NET_BIND_SERVICE", "DNS_CAPTURE", "FAIRWAY_DNS", "FAIRWAY_DNS_REPLY", "FAIRWAY_DNS_ZONE", "FAIRWAY_INBOUND",
	"FAIRWAY_OUTPUT", "FAIRWAY_STATUS_PORT",
	"INSTANCE_IPS", "INTERCEPTION_MODE", "ISTIO_VERSION", "MESH_ID", "MESH_INTERNAL", "NET_ADMIN", "NET_RAW", "NODE_NAME",
	"PILOT_SAN", "WORKLOAD_NAME",
}

// TestVariablesAreDocumented compares docs/reference/environment.md with the names that the programs' code has.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range repository(t) {
		room, _, _ := strings.Cut(f.room, "/")
		if f.isTest() || !slices.Contains(readingRooms, room) && !strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			word, _ := strconv.Unquote(literal.Value)
			word, _, _ = strings.Cut(word, "=")
			if variablePattern.MatchString(word) && !slices.Contains(notVariables, word) {
				found[word] = f.path
			}
			return true
		})
	}
	if len(found) < 80 {
		t.Errorf("only %d variables were found", len(found))
	}
	for name, path := range found {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s has %s: say in docs/reference/environment.md what it is for, or add it to notVariables", path, name)
		}
	}
}
