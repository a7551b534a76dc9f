package mesh

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Metadata is a node's own metadata that is text, in canonical form: equal metadata are equal texts. The empty text means no metadata.
type Metadata string

// Limits of a node's metadata. A longer entry is dropped. Entries are kept in order of their names until there are maxMetadata bytes.
const (
	maxMetadataEntry = 256
	maxMetadata      = 8 << 10
)

// MakeMetadata keeps the entries that are texts (EnvoyFilter.ProxyMatch.metadata: "only string key-value pairs are processed").
func MakeMetadata(md map[string]any) Metadata {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(md)) {
		value, ok := md[key].(string)
		if !ok || len(key) > maxMetadataEntry || len(value) > maxMetadataEntry || !utf8.ValidString(key) || !utf8.ValidString(value) {
			continue
		}
		one := strconv.Quote(key) + strconv.Quote(value)
		if b.Len()+len(one) > maxMetadata {
			break
		}
		b.WriteString(one)
	}
	return Metadata(b.String())
}

// All yields the entries, in order of their names.
func (m Metadata) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for rest := string(m); rest != ""; {
			key, after, ok := cutQuoted(rest)
			if !ok {
				return
			}
			var value string
			if value, rest, ok = cutQuoted(after); !ok || !yield(key, value) {
				return
			}
		}
	}
}

// Get returns the text of a name, and false if there is none.
func (m Metadata) Get(name string) (string, bool) {
	for rest := string(m); rest != ""; {
		key, after, ok := cutQuoted(rest)
		value, after, good := cutQuoted(after)
		if !ok || !good {
			return "", false // not made by MakeMetadata
		}
		if key == name {
			return value, true
		}
		rest = after
	}
	return "", false
}

// cutQuoted cuts a quoted text off the front of another.
func cutQuoted(s string) (value, rest string, ok bool) {
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", s, false
	}
	value, err = strconv.Unquote(quoted)
	return value, s[len(quoted):], err == nil
}
