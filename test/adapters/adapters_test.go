package adapters

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"fairway/embed"
	"fairway/internal/source/api"
	"fairway/test/rig"
)

// block is one of the page's.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

func blocks(t *testing.T) (out []block) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "adapters.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		out = append(out, block{m[1], m[2]})
	}
	if len(out) < 11 {
		t.Fatalf("the page has %d blocks", len(out))
	}
	return out
}

// start runs a control plane with a registry that is served by HTTP, and returns where.
func start(t *testing.T) (plane *embed.ControlPlane, url string) {
	t.Helper()
	registry, err := embed.NewRegistry(embed.RegistryOptions{Name: "inventory", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	plane, err = embed.New(embed.Options{GRPCAddr: "127.0.0.1:0", Registries: []*embed.Registry{registry}, ShutdownWindow: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- plane.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the control plane: %v", err)
		}
	})
	late, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	at, err := registry.Addr(late)
	if err != nil {
		t.Fatal(err)
	}
	return plane, "http://" + at
}

var revision = regexp.MustCompile(`\b1[0-9]{3,}\b`)

// TestCommands runs the page's commands in order, and compares the output of each with the page.
func TestCommands(t *testing.T) {
	_, url := start(t)
	all, ran := blocks(t), 0
	for i, b := range all {
		if b.language != "sh" {
			continue
		}
		if i+1 == len(all) || all[i+1].language != "text" {
			t.Fatalf("what these print is not said:\n%s", b.text)
		}
		c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", b.text)
		c.Env = append(os.Environ(), "API="+url)
		out, err := c.CombinedOutput()
		mask := func(s string) string { return strings.TrimRight(revision.ReplaceAllString(s, "N"), "\n") }
		// answers end with a line feed each, or with none where a part was cut out
		if got, want := mask(string(out)), mask(all[i+1].text); err != nil || got != want {
			t.Errorf("%s\nprints\n%s\nwant\n%s\n%v", b.text, got, want, err)
		}
		ran++
	}
	if ran < 4 {
		t.Errorf("%d blocks of commands were run", ran)
	}
}

// TestRegistriesFile: the page's entry is one.
func TestRegistriesFile(t *testing.T) {
	var file struct {
		Registries []struct {
			Name   string      `json:"name"`
			Memory api.Options `json:"memory"`
		} `json:"registries"`
	}
	for _, b := range blocks(t) {
		if b.language != "yaml" {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(b.text), &file); err != nil {
			t.Fatal(err)
		}
	}
	if len(file.Registries) != 1 || file.Registries[0].Memory.Address == "" || file.Registries[0].Memory.Validate() != nil {
		t.Errorf("the page's registries are %+v", file)
	}
}

// TestPrograms: the page has the programs as they are.
func TestPrograms(t *testing.T) {
	var has []string
	for _, b := range blocks(t) {
		if b.language == "go" {
			has = append(has, b.text)
		}
	}
	for i, name := range []string{"roster", "embedded"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "adapters", name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(has) || has[i] != string(text) {
			t.Errorf("docs/adapters.md does not have %s as it is", name)
		}
	}
}

// built is an example's program.
func built(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../examples/adapters/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// run runs a program until the test ends; it must end when it is asked to.
func run(t *testing.T, program string, args ...string) *bufio.Scanner {
	t.Helper()
	c := exec.Command(program, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil && !strings.Contains(err.Error(), "terminated") {
			t.Errorf("%s: %v", program, err)
		}
	})
	return bufio.NewScanner(out)
}

// TestRoster: the adapter puts what its platform knows, follows it, and takes nothing away while that does not answer or
// answers with a half.
func TestRoster(t *testing.T) {
	var page atomic.Pointer[string]
	says := func(text string) { page.Store(&text) }
	says("reviews 10.0.0.1 8080\nreviews 10.0.0.2 8080\nratings 10.0.1.1 9080\n")
	asked := make(chan struct{})
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := *page.Load()
		if text == "" {
			http.Error(w, "out of order", http.StatusInternalServerError)
		}
		fmt.Fprint(w, text)
		select {
		case asked <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(platform.Close)
	plane, url := start(t)
	run(t, built(t, "roster"), platform.URL, url)
	has := func(want string) error {
		var list struct {
			Items []struct{ Service embed.Service }
		}
		if err := rig.Read(url+"/v1/services", &list); err != nil {
			return err
		}
		got := map[string]string{}
		for _, i := range list.Items {
			for _, in := range i.Service.Instances {
				got[i.Service.Name] += " " + in.Addresses[0]
			}
		}
		text, err := json.Marshal(got)
		if string(text) != want || err != nil {
			return fmt.Errorf("there is %s, want %s", text, want)
		}
		return nil
	}
	rig.Eventually(t, func() error { return has(`{"ratings":" 10.0.1.1","reviews":" 10.0.0.1 10.0.0.2"}`) })
	for _, bad := range []string{"", "reviews 10.0.0.1 8080\nrev"} {
		says(bad)
		for range 3 { // the first request may be from before, and the third comes only after the second answer was processed
			<-asked
		}
		if err := has(`{"ratings":" 10.0.1.1","reviews":" 10.0.0.1 10.0.0.2"}`); err != nil {
			t.Errorf("while it says %q: %v", bad, err)
		}
	}
	says("reviews 10.0.0.2 8080\n")
	rig.Eventually(t, func() error { return has(`{"reviews":" 10.0.0.2"}`) })
	if list := plane.Problems(); len(list) != 0 {
		t.Errorf("there are problems: %v", list)
	}
}

// TestEmbedded: the program serves its services, and ends when it is asked to.
func TestEmbedded(t *testing.T) {
	lines := run(t, built(t, "embedded"))
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "xDS at 127.0.0.1:") {
		t.Fatalf("it prints %q", lines.Text())
	}
	_, pages, _ := strings.Cut(lines.Text(), "pages at ")
	code, body, err := rig.Call(http.MethodGet, "http://"+pages+"/debug/registryz", nil)
	if err != nil || code != http.StatusOK || !strings.Contains(body, "reviews.shop.svc.cluster.local") {
		t.Errorf("%d %s, %v", code, body, err)
	}
}
