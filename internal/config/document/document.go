package document

// Document is one YAML or JSON document of a file, as written.
type Document struct {
	File string // as the source calls it; empty where there is no file
	Line int    // the line of the first line of Text in that file, from 1
	Text []byte

	bad *Mistake // of a list's item that its list does not give: why
}

// Tree reads the document. It is nil for a document without content, and where there is a Mistake.
func (d Document) Tree() (any, *Mistake) {
	if d.bad != nil {
		return nil, d.bad
	}
	return parseTree(d.Text)
}

// Mistake is why something is no document: its text is neither YAML nor JSON, or it holds what no tree of ours may.
type Mistake struct {
	Line    int // in the text, from 1; 0 unknown
	Message string
	Fix     string
}
