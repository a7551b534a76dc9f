package document

// Document is one YAML or JSON document of a file, as written.
type Document struct {
	File string // the source's name for it; empty if there is no file
	Line int    // the line of the first line of Text in that file, from 1
	Text []byte

	bad *Mistake // of a list's item that its list does not give: why
}

// Tree reads the document. It is nil for a document without content, or with a Mistake.
func (d Document) Tree() (any, *Mistake) {
	if d.bad != nil {
		return nil, d.bad
	}
	return parseTree(d.Text)
}

// Mistake is the reason why a text is not a document: it is neither YAML nor JSON, or it has something that our trees must not have.
type Mistake struct {
	Line    int // in the text, from 1; 0 unknown
	Message string
	Fix     string
}
