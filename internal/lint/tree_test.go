package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const module = "fairway"

// arrows lists the rooms of ours that each room may import; a room is a folder of internal, subfolders included. A subfolder with a line of
// its own may import only the rooms of that line, not even its own room. docs/architecture.md draws the same picture. A room that is
// missing here may import nothing of ours, so a new one has to be added first.
var arrows = map[string][]string{
	"table":    {},
	"mesh":     {"xdstype"},
	"xds":      {"limit", "xdstype"},
	"config":   {"mesh", "printable", "spelling"},
	"envoy":    {"mesh", "config", "printable"},
	"identity": {"mesh", "printable", "disk", "limit", "xdstype", "jwks", "state"},
	"source":   {"config", "mesh", "printable", "disk", "mcpwire", "reading", "servers", "weigh", "xdstype"},
	"store":    {"config", "mesh", "printable", "servers", "weigh"},
	// Values of any kind that control planes share through etcd.
	"store/shared": {"disk", "printable", "servers", "store"},
	"door":         {"config", "mesh", "source"},
	"quota":        {"config", "mesh", "source"},
	"pace":         {"config", "mesh", "source"},
	"compile":      {"table", "mesh", "config", "envoy", "source", "printable", "xdstype", "jwks", "mcpwire", "golden", "spelling"},
	"agent": {
		"mesh", "envoy", "identity", "resident", "printable", "spelling", "web", "disk", "xdstype", "inherited", "dev/folder", "levels",
	},
	"inherited": {},
	"golden":    {}, // of tests
	"resident":  {},
	"disk":      {},
	"web":       {"limit", "mesh"},
	"admin": {
		"table", "mesh", "config", "compile", "source", "xds", "printable", "web", "xdstype", "interpret", "questions", "snapshot",
		"levels",
	},
	"snapshot": {"table", "mesh", "config", "jwks", "envoy", "source", "quota", "door", "compile"},
	"trial":    {"table", "mesh", "config", "envoy", "source", "quota", "door", "compile", "jwks", "xdstype"},
	"plan": {
		"table", "mesh", "config", "jwks", "envoy", "compile", "interpret", "printable", "snapshot", "trial", "xdstype",
	},
	"plan/remote": {"mesh", "xdstype"},
	"analyze": {
		"table", "mesh", "config", "source", "compile", "inject", "printable", "disk", "snapshot", "spelling", "kubeclient",
	},
	"ctl": {
		"mesh", "accesslog", "admin", "analyze", "config", "identity", "inject", "plan", "printable", "disk", "servers", "snapshot",
		"source/kube/translate", "spelling", "state", "store", "trial", "xdstype", "kubeclient", "dev/folder", "verbs", "levels",
		"agent/token/shown",
	},
	"inject":  {"config", "printable"},
	"webhook": {"config", "inject", "limit", "mesh", "printable", "spelling"},
	"writes":  {"config", "mesh", "printable", "spelling", "webhook/place", "kubeclient"},
	"lint":    {},
	// A control plane for one user, and where its workloads find it.
	"dev":        {"app", "config", "identity", "levels", "mesh", "source", "dev/folder"},
	"dev/folder": {"agent/token/shown", "disk", "identity/safefile"},

	// What control planes share: its stores know no room above them.
	"state":           {"disk", "identity/safefile", "printable", "servers"},
	"state/statetest": {"state"},
	"state/records":   {"state", "printable", "servers"},
	"state/etcd":      {"state", "store"},
	"state/consul":    {"state", "printable", "servers"},
	"state/address":   {"state", "state/etcd", "state/consul", "store", "printable", "servers"},
	// Lines of access logs, and what they mean: pure.
	"accesslog": {"golden"},
	// The interpreter reads Envoy's messages alone.
	"interpret":  {"mesh/regex", "printable"},
	"kubeclient": {},
	// Resources to be sent, the state of one stream, bytes, and the pure machine of one stream: none imports the server.
	"xds/paged":    {},
	"xds/library":  {"xds/paged", "xdstype"},
	"xds/slots":    {"xds/library", "xds/paged"},
	"xds/wire":     {"printable"},
	"xds/protocol": {"xds/library", "xds/slots", "xds/wire", "xdstype"},
	"xds/xdstest":  {"xds/library", "xdstype"},
	// Where an agent's token is: pilotctl knows it too.
	"agent/token/shown": {},
	// Messages between Envoy and the control plane as bytes, and resources on disk: neither knows sessions.
	"agent/relay/wire":  {},
	"agent/relay/cache": {"agent/relay/wire", "disk"},
	// Limits on what one source may keep and read: it knows no source.
	"source/budget": {"mesh"},
	// Objects in etcd; store knows their keys.
	"source/etcd": {"config", "disk", "mesh", "printable", "reading", "servers", "source", "store"},
	// Questions to an API server, and its answers; what the sink has to learn of objects: neither knows feeds.
	"source/kube/answers": {"printable", "reading", "weigh"},
	"source/kube/rows":    {"config", "mesh", "source", "source/budget", "source/kube/translate"},
	// Rows of Kubernetes' objects: pure functions, which know no source.
	"source/kube/translate": {"mesh", "printable", "source/budget"},
	// Stored services and objects, and their journal: it knows no HTTP.
	"source/api/book": {"disk", "identity/safefile"},
	// Pods as trees, words that users write, and values of the chart: none knows an injection.
	"inject/edit":   {},
	"inject/form":   {"printable"},
	"inject/values": {"inject/form"},
	// A source that is an HTTP server.
	"source/api": {"config", "disk", "identity", "mesh", "printable", "reading", "servers", "source", "web"},
	// Parts of the control plane, which app composes: none imports app.
	"app/publish":  {"compile", "config", "envoy", "identity", "mesh", "source", "table", "trial", "xds/library", "xdstype"},
	"app/proof":    {"admin/page", "identity", "mesh", "xds/library", "xdstype"},
	"app/lease":    {"identity"},
	"app/istioctl": {"admin/page", "identity", "printable", "xds", "xdstype"},
	"app/lookup":   {"ask", "printable"},
	"app/reader":   {"app/proof", "compile/exported", "identity", "mcpwire", "mesh", "xds"},
	"app/pushed":   {"identity", "limit", "mcpwire"},
	"app/lasting":  {"config", "identity", "printable", "source"},
	"app/registries": {
		"app/lasting", "app/machines", "config", "disk", "mesh", "printable", "source", "store",
	},
	"app/session": {
		"admin", "app/proof", "compile", "config", "disk", "envoy/bootstrap", "identity/safefile", "limit", "mesh", "printable",
		"xds", "xdstype",
	},
	"app/serving":  {"admin", "identity", "printable", "xds"},
	"app/standing": {"compile", "door", "mesh", "source/shards"},
	"app/loop":     {"admin", "table"},
	"app/audit":    {"admin", "printable", "table", "xds"},
	"app/history": {
		"admin", "admin/page", "app/loop", "compile/input", "config", "disk", "identity/safefile", "mesh", "printable", "table", "xds",
		"xdstype",
	},
	"app/flagfiles": {"config", "disk", "mesh"},
	"app/live": {
		"admin", "admin/page", "config", "door", "envoy/warming", "mesh", "mesh/code", "printable", "table", "xds", "xds/library",
		"xds/protocol", "xdstype",
	},
	"app/planned": {
		"admin/change", "compile", "config", "door", "plan", "quota", "source/shards", "trial",
	},
	"admin/asked": {"questions"},
	// A change that a client posts.
	"admin/change":  {"admin/page", "config", "printable"},
	"app/applies":   {"admin/page", "app/publish", "config", "mesh", "printable"},
	"app/selectors": {"compile/input", "config", "source", "table"},
	"app/clusters":  {"admin/page", "app/lasting", "app/selectors", "compile/secret", "config", "identity", "source", "table"},
	"app/configsources": {
		"app/lasting", "app/pushed", "app/secure", "compile/input", "config", "disk", "source", "table",
	},
	"app/wanted": {"app/lookup", "compile/input", "compile/secret", "config", "jwks", "mesh", "table"},
	"app/machines": {
		"app/environment", "compile/input", "config", "mesh", "printable", "source", "state", "store", "table",
	},
	"app/writeback": {
		"app/environment", "app/loop", "app/reached", "app/session", "compile", "config", "door", "mesh", "printable", "source",
		"table", "writes",
	},
	"app/reached": {"config", "mesh", "printable", "xds", "xds/library", "xds/protocol", "xdstype"},
	"app/listen":  {"web"},
	"app/memory":  {"resident"},
	"app/recent":  {},
	"app/replay":  {"app/loop", "compile", "mesh", "snapshot", "source"},
	"app/secure": {
		"admin", "app/environment", "app/lease", "app/proof",
		"app/sharing", "config", "disk", "envoy", "identity", "limit", "mesh", "source", "state", "table", "xds",
	},
	"app/sharing":     {"app/environment", "disk", "identity", "mesh", "printable", "source", "state", "table"},
	"app/injection":   {"compile/input", "config", "disk", "identity/safefile", "inject", "table", "webhook"},
	"app/environment": {},
	"app/authority":   {"app/secure", "app/sharing", "identity", "printable", "state"},
	// Steps of reading what users write, from text to credentials and rules: none imports config itself.
	"config/document":  {},
	"config/report":    {"config/document", "mesh", "printable"},
	"config/schemas":   {},
	"config/crd":       {"config/document", "config/report", "config/schemas", "mesh/code", "spelling"},
	"config/message":   {"config/document", "config/report", "mesh/code", "spelling"},
	"config/rule":      {"config/report", "mesh"},
	"config/traffic":   {"config/report", "config/rule", "mesh"},
	"config/security":  {"config/report", "config/rule", "mesh/code"},
	"config/extension": {"config/report", "config/rule", "mesh/code"},
	"config/secret":    {"config/report", "identity", "mesh"},
	"config/native":    {"config/report", "mesh/code", "mesh/regex"},
	"config/origin":    {},
	// URL paths of webhooks, shared by the code that serves them and the code that writes configurations.
	"webhook/place": {},
	// Text of strangers is made safe to show wherever it comes in.
	"printable": {},
	// Levels of logs.
	"levels": {"printable", "spelling"},
	// Command lines that refuse unknown verbs.
	"verbs": {},
	// Suggestions for unknown names.
	"spelling": {},
	// Values from outside that rows need, and that come later.
	"ask": {},
	// One large answer at a time is read in the process.
	"reading": {},
	// How servers outside are called.
	"servers": {"disk", "printable", "reading"},
	// How much memory messages take once they are decoded.
	"weigh": {},
	// Public keys of issuers of tokens; fetching them.
	"jwks":       {},
	"jwks/fetch": {"ask", "jwks", "printable", "web"},
	// A queue of questions: it knows no page.
	"questions": {},
	// Limits on the calls a second of each address, in bounded memory.
	"limit": {},
	// The messages of MCP as bytes.
	"mcpwire": {},
	// The types of resources that proxies are sent.
	"xdstype": {},
}

// unlinked names packages that a room's programs must not carry, with the reason.
var unlinked = map[string]map[string]string{
	"agent": {"k8s.io/": "the agent runs beside every workload and stays small"},
	"table": {".": "the engine needs the standard library only"},
	"mesh":  {".": "the words need the standard library only"},
}

type file struct {
	path string // relative to the repository, with slashes
	room string // folder below internal; empty outside
	ast  *ast.File
	fset *token.FileSet
}

// parsed reads the Go files of the repository, once for all tests.
var parsed = sync.OnceValues(func() ([]file, error) {
	root := filepath.Join("..", "..")
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin") &&
			d.Name() != ".." {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		var room string
		if rest, ok := strings.CutPrefix(rel, "internal/"); ok {
			room, _, _ = strings.Cut(rest, "/")
		}
		files = append(files, file{rel, room, tree, fset})
		return nil
	})
	return files, err
})

// repository returns the Go files of the repository. A test may reorder and shorten the result, but must not change the trees.
func repository(t *testing.T) []file {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d Go files below the repository", len(files))
	}
	return slices.Clone(files)
}

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func imports(f file) []string {
	var out []string
	for _, i := range f.ast.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		out = append(out, path)
	}
	return out
}

// drawn returns the innermost folder around a file that has arrows of its own; empty: there is none.
func drawn(f file) string {
	folder := strings.TrimPrefix(path.Dir(f.path), "internal/")
	for ; folder != "."; folder = path.Dir(folder) {
		if _, known := arrows[folder]; known {
			return folder
		}
	}
	return ""
}

// within reports whether a folder is another folder, or is inside it.
func within(folder, other string) bool {
	return folder == other || strings.HasPrefix(folder, other+"/")
}

// TestArrows keeps data flowing one way: only app may import every room, and rooms below it may not.
func TestArrows(t *testing.T) {
	for _, f := range repository(t) {
		if f.room == "" || path.Dir(f.path) == "internal/app" || f.isTest() {
			continue
		}
		from := drawn(f)
		if from == "" {
			t.Errorf("%s: room %q is not drawn in internal/lint; say there what it may import", f.path, f.room)
			continue
		}
		for _, path := range imports(f) {
			rest, ours := strings.CutPrefix(path, module+"/internal/")
			if ours && !within(rest, from) && !slices.ContainsFunc(arrows[from], func(to string) bool { return within(rest, to) }) {
				t.Errorf("%s imports %s: room %s may import %v", f.path, path, from, arrows[from])
			}
			for prefix, why := range unlinked[f.room] {
				if !ours && strings.Contains(path, prefix) && (prefix != "." || strings.Contains(strings.SplitN(path, "/", 2)[0], ".")) {
					t.Errorf("%s imports %s: %s", f.path, path, why)
				}
			}
		}
	}
}

// TestPeerIsNeverImported: the project is an independent implementation.
func TestPeerIsNeverImported(t *testing.T) {
	for _, f := range repository(t) {
		for _, path := range imports(f) {
			if path == "istio.io/istio" || strings.HasPrefix(path, "istio.io/istio/") || strings.HasPrefix(path, "istio.io/pkg/") {
				t.Errorf("%s imports %s", f.path, path)
			}
		}
	}
}

// TestPackageDocs: every package outside of tests has a package comment.
func TestPackageDocs(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range repository(t) {
		if f.isTest() {
			continue
		}
		dir := filepath.Dir(f.path)
		documented[dir] = documented[dir] || f.ast.Doc != nil && len(f.ast.Doc.Text()) > 40
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// TestNoInit: no package has an init function.
func TestNoInit(t *testing.T) {
	for _, f := range repository(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function", f.fset.Position(fn.Pos()))
			}
		}
	}
}

// TestNoCatchAllNames refuses the names under which unrelated things gather.
func TestNoCatchAllNames(t *testing.T) {
	for _, f := range repository(t) {
		switch f.ast.Name.Name {
		case "util", "utils", "common", "helper", "helpers", "misc":
			t.Errorf("%s: package %s says nothing of what it holds", f.path, f.ast.Name.Name)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if ts, ok := n.(*ast.TypeSpec); ok {
				for _, suffix := range []string{"Manager", "Helper", "Impl", "Util"} {
					if strings.HasSuffix(ts.Name.Name, suffix) {
						t.Errorf("%s: type %s: name what it does", f.fset.Position(ts.Pos()), ts.Name.Name)
					}
				}
			}
			return true
		})
	}
}

// TestTestsDoNotSleep: tests wait for turns, versions and readiness. Tests with synctest's clock may sleep, because its time passes at
// once.
func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range repository(t) {
		if !f.isTest() && !strings.HasPrefix(f.path, "test/") || slices.Contains(imports(f), "testing/synctest") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s sleeps", f.fset.Position(sel.Pos()))
			}
			return true
		})
	}
}

// widest is how many columns a line may have, with tabs of four.
const widest = 140

// A line is read at one glance. Text in a raw string is not ours, and keeps its lines.
func TestLinesFit(t *testing.T) {
	for _, f := range repository(t) {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.path)))
		if err != nil {
			t.Fatal(err)
		}
		raw := map[int]bool{}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
				for line := f.fset.Position(lit.Pos()).Line; line <= f.fset.Position(lit.End()).Line; line++ {
					raw[line] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > widest && !raw[i+1] {
				t.Errorf("%s:%d has %d columns of at most %d: break it", f.path, i+1, n, widest)
			}
		}
	}
}

// A package's comment names the rooms below it: a newcomer looks there for the place to change.
func TestCommentsNameTheRoomsBelow(t *testing.T) {
	comments, rooms := map[string]string{}, map[string]bool{}
	for _, f := range repository(t) {
		if dir := path.Dir(f.path); strings.HasPrefix(dir, "internal/") {
			comments[dir] += f.ast.Doc.Text()
			rooms[dir] = true
		}
	}
	for room := range rooms {
		above, name := path.Split(room)
		above = path.Clean(above)
		if !rooms[above] || name == path.Base(above)+"test" { // helpers that tests share are beside them
			continue
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(comments[above]) {
			t.Errorf("the comment of %s does not name %s", above, name)
		}
	}
}

// The order of a loop over a written-out map differs each time: errors and results would differ from run to run.
func TestLoopsHaveAnOrder(t *testing.T) {
	for _, f := range repository(t) {
		if f.room == "" || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if loop, ok := n.(*ast.RangeStmt); ok {
				if lit, ok := loop.X.(*ast.CompositeLit); ok {
					if _, ok := lit.Type.(*ast.MapType); ok {
						t.Errorf("%s loops over a map literal: use a slice of structs", f.fset.Position(loop.Pos()))
					}
				}
			}
			return true
		})
	}
}

// TestMainsAreSmall: a program's main turns flags into options and hands them to app.
func TestMainsAreSmall(t *testing.T) {
	for _, f := range repository(t) {
		if !strings.HasPrefix(f.path, "cmd/") || f.isTest() {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", f.path))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 60 {
			t.Errorf("%s has %d lines; 60 are enough for flags → Options → app", f.path, n)
		}
	}
}
