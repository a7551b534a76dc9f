package registries

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// TestExamplesOfDocs reads each block of YAML in README and docs as the program would read it: registries, mesh configuration, objects.
func TestExamplesOfDocs(t *testing.T) {
	const top = "../../.."
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(top, "README.md")}
	if err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range blocks(string(text), "yaml") {
			read++
			if err := accepted(decoder, block); err != nil {
				t.Errorf("%s, block %d: %v\n%s", file, i+1, err, block)
			}
		}
	}
	if read < 10 {
		t.Errorf("only %d examples were found", read)
	}
}

// blocks returns the fenced blocks of a language.
func blocks(text, language string) (out []string) {
	for {
		_, after, found := strings.Cut(text, "\n```"+language+"\n")
		if !found {
			return out
		}
		block, rest, _ := strings.Cut(after, "\n```")
		out, text = append(out, block+"\n"), rest
	}
}

// accepted reports why the program would not take an example as it is.
func accepted(decoder *config.Decoder, block string) error {
	if strings.HasPrefix(block, "registries:") {
		return acceptedRegistries(block)
	}
	decode := decoder.Decode
	if !strings.Contains(block, "apiVersion:") {
		decode = decoder.DecodeMeshConfig
	}
	for _, doc := range config.Split("example.yaml", []byte(block)) {
		o, problems := decode(doc)
		for _, p := range problems {
			if p.Severity != mesh.Info {
				return fmt.Errorf("%s: %s", p.Field, p.Message)
			}
		}
		if o == nil {
			return fmt.Errorf("line %d is not an object", doc.Line)
		}
	}
	return nil
}

func acceptedRegistries(block string) error {
	entries, err := parse([]byte(block))
	if err != nil {
		return err
	}
	for _, node := range entries {
		e, err := decode(node)
		if err != nil {
			return err
		}
		if _, err := e.check(Defaults{}); err != nil {
			return err
		}
	}
	return nil
}
