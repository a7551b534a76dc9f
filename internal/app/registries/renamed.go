package registries

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// renamed are options that had another name, by kind: they are read under the one that counts, and a problem tells it.
var renamed = map[string][]struct {
	was, is string
	value   func(string) string // converts the old value for the new name; nil: it stays the same
}{
	"consul":    {{"keepFor", "keepMissing", nil}},
	"nomad":     {{"keep", "keepMissing", nil}},
	"eureka":    {{"keep", "keepMissing", nil}},
	"zookeeper": {{"keepMissingSeconds", "keepMissing", ofSeconds}},
}

// ofSeconds converts a number of seconds into a duration, for options in which 0 was the default and -1 was none.
func ofSeconds(text string) string {
	switch text {
	case "0":
		return ""
	case "-1":
		return "0s"
	}
	if d, err := time.ParseDuration(text + "s"); err == nil {
		return d.String()
	}
	return text
}

// old is an option under a name that it had before.
type old struct {
	line  int
	field string
	words string
}

// rename replaces old names of options in an entry with the current ones, and returns the options that had old names. If an entry
// has both names, rename leaves both: the old one is then reported as unknown.
func rename(entry *yaml.Node) (found []old) {
	each(entry, func(kind, options *yaml.Node) {
		for _, r := range renamed[kind.Value] {
			var was, value *yaml.Node
			taken := false
			each(options, func(k, v *yaml.Node) {
				switch k.Value {
				case r.was:
					was, value = k, v
				case r.is:
					taken = true
				}
			})
			if was == nil || taken {
				continue
			}
			if was.Value = r.is; r.value != nil {
				value.SetString(r.value(value.Value))
			}
			found = append(found, old{was.Line, kind.Value + "." + r.was, fmt.Sprintf("%s is an old name of %s", r.was, r.is)})
		}
	})
	return found
}

// each does something for each pair of a mapping.
func each(n *yaml.Node, do func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		do(n.Content[i], n.Content[i+1])
	}
}
