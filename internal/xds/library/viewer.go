package library

// Viewer is a stream's place in the library. It is safe for concurrent use.
type Viewer struct {
	lib    *Library
	id     ProxyID
	tokens chan struct{} // holds at most one token

	// Guarded by the library's lock.
	bound *binding
	types map[string]bool // the types that it watches the shelves of
}

// Open registers a stream of the proxy. The viewer is woken once the proxy is attached. The caller must close it.
func (l *Library) Open(id ProxyID) *Viewer {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.binding(id)
	w := &Viewer{lib: l, id: id, tokens: make(chan struct{}, 1), bound: b, types: map[string]bool{}}
	b.viewers[w] = struct{}{}
	return w
}

// Close takes the stream out of the library.
func (w *Viewer) Close() {
	w.lib.mu.Lock()
	defer w.lib.mu.Unlock()
	w.unwatch()
	delete(w.bound.viewers, w)
	w.lib.forget(w.id, w.bound)
}

// Follow has the viewer woken by changes of a type, from now on.
func (w *Viewer) Follow(typ string) {
	w.lib.mu.Lock()
	defer w.lib.mu.Unlock()
	if !w.types[typ] {
		w.types[typ] = true
		w.watch()
	}
}

// Read runs fn with the viewer's view at one turn; fn must not keep the view. It returns false, and does not run fn, while the proxy is not
// attached.
func (w *Viewer) Read(fn func(v *View)) bool {
	l := w.lib
	l.mu.RLock()
	defer l.mu.RUnlock()
	if w.bound.at == nil {
		return false
	}
	fn(&View{Turn: l.turn, at: w.bound.at, lib: l})
	return true
}

// Woken returns the channel that gets a token when a resource that the viewer follows, or its attachment, changed.
func (w *Viewer) Woken() <-chan struct{} { return w.tokens }

// Wake wakes the stream.
func (w *Viewer) Wake() {
	select {
	case w.tokens <- struct{}{}:
	default:
	}
}

func (w *Viewer) watch() {
	for _, s := range w.followed() {
		s.watchers[w] = struct{}{}
	}
}

func (w *Viewer) unwatch() {
	for _, s := range w.followed() {
		delete(s.watchers, w)
	}
}

func (w *Viewer) followed() (out []*Shelf) {
	if w.bound.at == nil {
		return nil
	}
	for typ := range w.types {
		out = append(out, w.bound.at.stacks[typ]...)
	}
	return out
}
