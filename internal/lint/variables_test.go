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

// notDocumented are keys of metadata that no user sets as a variable: agents and injection write them, or the page names the variable
// that they are made from.
var notDocumented = []string{
	"FAIRWAY_EXTENSIONS", "FAIRWAY_IDENTITY", "INSTANCE_IPS", "ISTIO_VERSION", "LABELS", "NAMESPACE", "PROXY_CONFIG", "SERVICE_ACCOUNT",
}

// TestReadVariablesAreDocumented: docs/reference/environment.md has each variable that a program reads (os.Getenv, os.LookupEnv, and the
// agent's own lookups), and each key of metadata that the control plane reads of a proxy, as ISTIO_META_<key> or ISTIO_METAJSON_<key>.
func TestReadVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	read, keys := map[string]string{}, 0
	for _, f := range repository(t) {
		if f.isTest() || f.room == "" && !strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if name, is := readVariable(n); is {
				read[name] = f.path
			}
			if key := readKey(n); key != "" && strings.HasPrefix(f.path, "internal/mesh/nodeid/") && !slices.Contains(notDocumented, key) {
				keys++
				if !strings.Contains(string(page), "`ISTIO_META_"+key+"`") && !strings.Contains(string(page), "`ISTIO_METAJSON_"+key+"`") {
					t.Errorf("%s reads the metadata %s: name ISTIO_META_%s in docs/reference/environment.md", f.path, key, key)
				}
			}
			return true
		})
	}
	if len(read) < 20 || keys < 6 {
		t.Errorf("only %d variables and %d keys of metadata were found", len(read), keys)
	}
	for name, path := range read {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s reads %s: say in docs/reference/environment.md what it is for", path, name)
		}
	}
}

// readVariable returns the variable that an expression reads: os.Getenv("X"), lookup("X"), vars["X"].
func readVariable(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if len(n.Args) == 1 && readers.MatchString(lastName(n.Fun)) {
			return word(n.Args[0])
		}
	case *ast.IndexExpr:
		if lastName(n.X) == "Vars" {
			return word(n.Index)
		}
	}
	return "", false
}

// readers match the names of functions that read a variable.
var readers = regexp.MustCompile(`^(Getenv|LookupEnv|getenv|lookup|Lookup|env)$`)

// readKey returns the key of metadata that an expression reads: text(md, "X"), flag(md, "X"), md["X"]; empty: it reads none.
func readKey(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if len(n.Args) == 2 && lastName(n.Args[0]) == "md" {
			key, _ := word(n.Args[1])
			return key
		}
	case *ast.IndexExpr:
		if lastName(n.X) == "md" {
			key, _ := word(n.Index)
			return key
		}
	}
	return ""
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// word returns a literal of capital letters.
func word(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil && wordPattern.MatchString(text)
}

var wordPattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

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
