package edit_test

import (
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"

	"fairway/internal/inject/edit"
)

// value draws a tree: maps, lists whose items have names, lists whose items have none, and words.
func value(depth int) *rapid.Generator[any] {
	word := rapid.Map(rapid.SampledFrom([]string{"a", "b", "c", "~/"}), func(s string) any { return s })
	if depth == 0 {
		return word
	}
	below := value(depth - 1)
	names := rapid.SampledFrom([]string{"a", "b", "c", "d/e", "f~"})
	fields := rapid.MapOfN(names, below, 0, 4)
	items := rapid.Map(rapid.Custom(func(t *rapid.T) []any {
		var out []any
		for _, name := range rapid.SliceOfNDistinct(names, 0, 5, rapid.ID).Draw(t, "names") {
			item := fields.Draw(t, "item")
			item["name"] = name
			out = append(out, item)
		}
		return out
	}), func(l []any) any { return append([]any{}, l...) })
	return rapid.OneOf(word, items,
		rapid.Map(fields, func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(below, 0, 3), func(l []any) any { return append([]any{}, l...) }))
}

// TestPatchTurnsOneTreeIntoAnother: the operations that Patch returns, applied to the first tree, give the second; equal trees need none,
// and neither tree is changed.
func TestPatchTurnsOneTreeIntoAnother(t *testing.T) {
	trees := rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", "z"}), value(3), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		before, after := trees.Draw(t, "before"), trees.Draw(t, "after")
		was, is := edit.Clone(before), edit.Clone(after)
		if len(edit.Patch(before, was)) != 0 {
			t.Fatalf("equal trees differ by %+v", edit.Patch(before, was))
		}
		operations, err := json.Marshal(edit.Patch(before, after))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, was) || !reflect.DeepEqual(after, is) {
			t.Fatal("Patch has changed a tree")
		}
		patch, err := jsonpatch.DecodePatch(operations)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = patch.Apply(text); err != nil {
			t.Fatalf("%v in %s", err, operations)
		}
		got := map[string]any{}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, after) {
			t.Fatalf("%s gives\n%v\nwant\n%v", operations, got, after)
		}
	})
}
