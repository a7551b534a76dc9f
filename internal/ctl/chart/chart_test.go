package chart_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/chart"
)

// files is a chart with a part; its templates print their values.
func files() fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: top, version: 1.0.0, appVersion: 2.0.0, kubeVersion: '>=1.29.0-0',\n" +
			"dependencies: [{name: low, version: 1.0.0, condition: low.used}]}",
		"README.md":   "read me",
		"values.yaml": "{a: 1, t: {v: {z: 2}, x: 1}, none: null, low: {used: true, b: 2}, global: {g: {p: 1}}}",
		"values.schema.json": `{"properties": {"a": {"type": "integer"}, "s": {"items": {"enum": ["one", "two", "three"]}},
"d": {"additionalProperties": false, "properties": {"color": {"pattern": "^[a-z]+$"}, "size": {"minLength": 1}}}}}`,
		"templates/_helpers.tpl":        `{{ define "who" }}{{ .Chart.Name }} {{ .Chart.AppVersion }}{{ end }}`,
		"templates/all.yaml":            `{{ include "who" . }} {{ .Release.Name }} {{ .Release.IsUpgrade }} {{ toJson .Values }}{{ .Values.missing }}`,
		"charts/low/Chart.yaml":         "{apiVersion: v2, name: low, version: 1.0.0, appVersion: 3.0.0}",
		"charts/low/values.yaml":        "{b: 1, c: {d: 1}, global: {g: {p: 2, q: 2}}}",
		"charts/low/values.schema.json": `{"properties": {"b": {"maximum": 9}}}`,
		"charts/low/templates/all.yaml": `{{ include "who" . }} {{ toJson .Values }}`,
	} {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func load(t *testing.T, from fs.FS) *chart.Chart {
	t.Helper()
	c, err := chart.Load(from, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFill: values have precedence over defaults, a null removes one, a chart shares global values with its part, and a condition
// switches the part off.
func TestFill(t *testing.T) {
	const top, low = "top 2.0.0 web true ", "low 3.0.0 "
	for text, want := range map[string][2]string{
		`{}`: {
			top + `{"a":1,"global":{"g":{"p":1}},"low":{"b":2,"c":{"d":1},"global":{"g":{"p":1,"q":2}},"used":true},"t":{"v":{"z":2},"x":1}}`,
			low + `{"b":2,"c":{"d":1},"global":{"g":{"p":1,"q":2}},"used":true}`,
		},
		`{a: null, t: {v: {w: [1]}, x: null}, low: {c: null, b: null}, global: {g: {q: 3}}}`: {
			top + `{"global":{"g":{"p":1,"q":3}},"low":{"global":{"g":{"p":1,"q":3}},"used":true},"t":{"v":{"w":[1],"z":2}}}`,
			low + `{"global":{"g":{"p":1,"q":3}},"used":true}`,
		},
		`{low: {used: false}}`: {top + `{"a":1,"global":{"g":{"p":1}},"low":{"b":2,"used":false},"t":{"v":{"z":2},"x":1}}`, ""},
		`{low: null, t: 5}`: {
			top + `{"a":1,"global":{"g":{"p":1}},"low":{"b":1,"c":{"d":1},"global":{"g":{"p":1,"q":2}}},"t":5}`,
			low + `{"b":1,"c":{"d":1},"global":{"g":{"p":1,"q":2}}}`,
		},
	} {
		values, err := chart.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(values)
		c := load(t, files())
		all, err := c.Choose(values)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := c.Fill(all, chart.NewRelease("web", "shop", 2), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		wanted := map[string]string{"top/templates/all.yaml": want[0]}
		if want[1] != "" {
			wanted["top/charts/low/templates/all.yaml"] = want[1]
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if after, _ := json.Marshal(values); string(after) != string(before) {
			t.Errorf("%s: the values are changed to %s", text, after)
		}
	}
}

// TestRefused: an error names the mistake and its place.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{a: x}`:                     "values:\n  a: \"x\" is a text; want a whole number",
		`{low: {b: 10}}`:             "values:\n  low.b: 10 is too large; want at most 9",
		`{low: 5}`:                   "values: low is 5; want a table of values",
		`{s: [x]}`:                   "values:\n  s.0: \"x\"; want one, two or three",
		`{s: [ona], a: 1.5}`:         "values:\n  a: 1.5 is a number; want a whole number\n  s.0: \"ona\"; want one, two or three; did you mean one?",
		`{d: {one: 1, colour: 2}}`:   "values:\n  d.colour: unknown value; did you mean color?\n  d.one: unknown value; there are color, size",
		`{d: {size: ""}}`:            "values:\n  d.size: \"\" is too short; want at least 1 characters",
		`{d: {color: Red}}`:          "values:\n  d.color: \"Red\"; want a text that matches ^[a-z]+$",
		`{a: 2, low: {used: "yes"}}`: "", // no condition: the part stays
	} {
		values, err := chart.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = load(t, files()).Choose(values)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v; want %q", text, err, want)
		}
	}
	if _, err := chart.Parse([]byte("a: [")); err == nil {
		t.Error("values that are no YAML were taken")
	}
	for name, text := range map[string]string{
		"Chart.yaml":            "{name: top, colour: red}",
		"values.yaml":           "a: [",
		"charts/low/Chart.yaml": "{name: low, dependencies: [{name: lower}]}",
	} {
		broken := files()
		broken[name] = &fstest.MapFile{Data: []byte(text)}
		if _, err := chart.Load(broken, ""); err == nil {
			t.Errorf("a chart with %s in %s was taken", text, name)
		}
	}
	for template, want := range map[string]string{
		`{{ fail "no such thing" }}`: "values: no such thing",
		`{{ .Release.Name.x }}`:      "can't evaluate field x",
		`{{ env "HOME" }}`:           `function "env" not defined`,
	} {
		broken := files()
		broken["templates/all.yaml"] = &fstest.MapFile{Data: []byte(template)}
		_, err := load(t, broken).Fill(nil, chart.NewRelease("web", "shop", 1), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", template, err, want)
		}
	}
}

// TestRuns: kubeVersion bounds the version of the cluster.
func TestRuns(t *testing.T) {
	c := load(t, files())
	for version, want := range map[string]string{
		"v1.29.0": "", "v1.36.3-gke.1": "", "v1.28.9": "the cluster's Kubernetes is v1.28.9; want >=1.29.0-0", "soon": `version "soon"`,
	} {
		if err := c.Runs(version); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v; want %q", version, err, want)
		}
	}
}

// TestManifests: objects are created in Helm's order, those of one kind and of unknown kinds in that of their files; a chart with hooks is
// refused.
func TestManifests(t *testing.T) {
	var names []string
	all, err := chart.Manifests(map[string]string{
		"b.yaml": "kind: Zebra\n---\nkind: Deployment\n---\n\n--- # a comment\nkind: ConfigMap\nmetadata: {name: b}\n",
		"a.yaml": "---\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: Ant\n---\nkind: Namespace",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(m.Text), &o); err != nil {
			t.Fatal(err)
		}
		names = append(names, m.File+" "+o.Kind+o.Metadata.Name)
	}
	want := []string{
		"a.yaml Namespace", "a.yaml ConfigMapa", "b.yaml ConfigMapb", "b.yaml Deployment", "a.yaml Ant", "b.yaml Zebra",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the order is %q, want %q", names, want)
	}
	for text, want := range map[string]string{
		"kind: Job\nmetadata: {annotations: {helm.sh/hook: pre-install}}": "hooks", "kind: [": "a.yaml",
	} {
		if _, err := chart.Manifests(map[string]string{"a.yaml": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", text, err, want)
		}
	}
}

// TestRecord: the JSON of a chart has the fields of Helm's records, the defaults of its parts among the values.
func TestRecord(t *testing.T) {
	c := load(t, files())
	if _, err := c.Choose(chart.Values{}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	fields := slices.Sorted(maps.Keys(got))
	if want := []string{"files", "lock", "metadata", "schema", "schemamodtime", "templates", "values"}; !slices.Equal(fields, want) {
		t.Errorf("the fields are %q, want %q", fields, want)
	}
	values, err := json.Marshal(got["values"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":1,"global":{"g":{"p":1}},"low":{"b":2,"c":{"d":1},"global":{"g":{"p":1,"q":2}},"used":true},` +
		`"none":null,"t":{"v":{"z":2},"x":1}}`
	if string(values) != want {
		t.Errorf("the values are %s, want %s", values, want)
	}
}
