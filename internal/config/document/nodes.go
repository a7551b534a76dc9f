package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// parseNodes parses one document; it returns nil if the document is empty.
func parseNodes(text []byte) (*yaml.Node, *Mistake) {
	if bad := tooMany(text); bad != nil {
		return nil, bad
	}
	if !utf8.Valid(text) {
		return nil, &Mistake{Line: 1, Message: "the text is not UTF-8"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := safeDecode(dec, &doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, yamlError(err, text)
	}
	if bad := behind(dec, text); bad != nil {
		return nil, bad
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// behind returns a mistake if a text has something after its first document. A decoder stops there, and the rest would be ignored without
// notice.
func behind(dec *yaml.Decoder, text []byte) *Mistake {
	for {
		var more yaml.Node
		err := safeDecode(dec, &more)
		bad := &Mistake{Line: more.Line}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			if bad = yamlError(err, text); strings.HasPrefix(err.Error(), "yaml: line ") &&
				strings.HasSuffix(err.Error(), "<document start>") {
				bad.Line++ // the library counts its parser's lines from 0, its scanner's from 1
			}
		case len(more.Content) == 0 || more.Content[0].Kind == yaml.ScalarNode && more.Content[0].Value == "":
			continue // a marker with nothing behind it
		}
		bad.Message, bad.Fix = "there is text after the end of the object",
			"remove it; or put a line --- before it, if it is an object of its own"
		return bad
	}
}

// safeDecode keeps a panic of the YAML library, should there be one for some text, from being more than a bad document.
func safeDecode(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return dec.Decode(doc)
}

// yamlError takes the line out of the library's text ("yaml: line 3: …").
func yamlError(err error, text []byte) *Mistake {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Mistake{Line: 1, Message: "not valid YAML: " + message}
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if n, after, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(n); err == nil {
				e.Line, e.Message = line, "not valid YAML: "+after
			}
		}
	}
	if bytes.Contains(lineOf(text, e.Line), []byte{'\t'}) {
		e.Fix = "indent with spaces: YAML allows no tabs there"
	}
	return e
}

// lineOf returns one line of a text, counted from 1.
func lineOf(text []byte, n int) []byte {
	for line := range bytes.Lines(text) {
		if n--; n == 0 {
			return line
		}
	}
	return nil
}
