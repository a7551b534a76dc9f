package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/test/ads"
)

// apply FILE…: set the objects of all files at once, as one batch.
func (w *world) apply(args []string) error {
	var objects []*config.Object
	for _, name := range args {
		text, err := read(w.path(name))
		if err != nil {
			return err
		}
		for _, doc := range strings.Split(text, "\n---\n") {
			o, problems := w.decoder.Decode(config.Document{File: name, Line: 1, Text: []byte(doc)})
			if o == nil {
				return fmt.Errorf("%s: %v", name, problems)
			}
			objects = append(objects, o)
		}
	}
	w.source.Set(objects...)
	return w.settle()
}

// delete KIND NAMESPACE/NAME: delete one object.
func (w *world) delete(args []string) error {
	ns, name, _ := strings.Cut(args[1], "/")
	w.source.Delete(config.Key{Kind: config.Kind(args[0]), Namespace: ns, Name: name})
	return w.settle()
}

// place FILE PATH: put a file into the rules' folder as an atomic rename does, and wait until the control plane has taken a turn for it.
func (w *world) place(args []string) error {
	text, err := os.ReadFile(w.path(args[0]))
	if err != nil {
		return err
	}
	target := w.path(args[1])
	tmp := filepath.Join(filepath.Dir(target), ".tmp")
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return err
	}
	return w.turnOf(func() error { return os.Rename(tmp, target) })
}

// remove PATH: remove a file from the rules' folder, and wait as place does.
func (w *world) remove(args []string) error {
	return w.turnOf(func() error { return os.Remove(w.path(args[0])) })
}

// turnOf does what makes the file source hand something over, and waits until that is in force.
func (w *world) turnOf(do func() error) error {
	ctx, cancel := bounded()
	defer cancel()
	before := w.discovery.LastTurn().Version
	if err := do(); err != nil {
		return err
	}
	if err := w.discovery.AfterTurn(ctx, before); err != nil {
		return fmt.Errorf("no turn followed: %w", err)
	}
	return w.settle()
}

// got [NAME…]: show what each proxy received since the last got, or "nothing"; in order of type and name, so that it
// does not depend on how it was split.
func (w *world) got(args []string) error {
	names := args
	if len(names) == 0 {
		names = sortedNames(w.clients)
	}
	for _, name := range names {
		c := w.clients[name]
		if c == nil {
			return fmt.Errorf("no client %s", name)
		}
		c.mu.Lock()
		sent := c.sent
		c.sent = nil
		c.mu.Unlock()
		slices.Sort(sent)
		if len(sent) == 0 {
			sent = []string{"nothing"}
		}
		for _, line := range sent {
			fmt.Fprintf(w.out, "%s: %s\n", name, line)
		}
	}
	return nil
}

func typeOf(short string) (string, error) {
	for _, typ := range ads.Types {
		if ads.Short(typ) == short {
			return typ, nil
		}
	}
	return "", fmt.Errorf("no type %s", short)
}

// held NAME TYPE: list the names that a proxy holds.
func (w *world) held(args []string) error {
	typ, err := typeOf(args[1])
	if err != nil {
		return err
	}
	for _, n := range w.clients[args[0]].Names(typ) {
		fmt.Fprintln(w.out, n)
	}
	return nil
}

// dump NAME TYPE RESOURCE: show one resource as YAML.
func (w *world) dump(args []string) error {
	typ, err := typeOf(args[1])
	if err != nil {
		return err
	}
	body, ok := w.clients[args[0]].Body(typ, args[2])
	if !ok {
		return fmt.Errorf("%s does not hold %s %s", args[0], args[1], args[2])
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(typ)
	if err != nil {
		return err
	}
	text, err := asYAML(kind, body)
	if err != nil {
		return err
	}
	w.out.Write(text)
	return nil
}

func asYAML(kind protoreflect.MessageType, body []byte) ([]byte, error) {
	m := kind.New().Interface()
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text)
}

// problems: show the problems of the applied rules.
func (w *world) problems([]string) error {
	if w.discovery == nil {
		return errors.New("the mesh does not run")
	}
	for _, p := range w.discovery.Problems() {
		fmt.Fprintln(w.out, strings.ReplaceAll(p.String(), w.env.WorkDir+"/", ""))
	}
	return nil
}

// applies [KIND [NAMESPACE/NAME]]: show for how many proxies each object makes a difference, which, and why for none.
func (w *world) applies(args []string) error {
	ctx, cancel := bounded()
	defer cancel()
	args = append(args, "", "")
	ns, name, _ := strings.Cut(args[1], "/")
	all, err := w.discovery.Applies(ctx, args[0], ns, name, "")
	if err != nil {
		return err
	}
	for _, o := range all.Objects {
		fmt.Fprintf(w.out, "%s %s/%s: %d", o.Kind, o.Namespace, o.Name, o.Proxies)
		for _, id := range o.Some {
			fmt.Fprint(w.out, " ", strings.Split(id, "~")[2])
		}
		for _, why := range o.Why {
			fmt.Fprint(w.out, "; ", why)
		}
		fmt.Fprintln(w.out)
	}
	return nil
}

// rows: show how many rows the last turn recomputed, table by table.
func (w *world) rows([]string) error {
	for _, t := range w.discovery.LastTurn().Tables {
		fmt.Fprintf(w.out, "%s %d\n", t.Name, t.Recomputed)
	}
	return nil
}

// report NAME healthy|WORDS: the proxy's agent reports its application's health, with WORDS if it fails; and wait until
// every proxy has acknowledged the resulting changes.
func (w *world) report(args []string) error {
	failure := strings.Join(args[1:], " ")
	if failure == "healthy" {
		failure = ""
	}
	return w.turnOf(func() error {
		return w.clients[args[0]].Report("type.googleapis.com/istio.v1.HealthInformation", failure)
	})
}
