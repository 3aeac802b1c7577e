package experiment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/weftlab/weft/experiment/table"
)

// Store keeps the tables of jobs in a directory, in one file per job named by its key, so
// that an experiment can be continued.
type Store struct{ dir string }

// NewStore returns a store in a directory, which is created when something is stored.
func NewStore(dir string) *Store { return &Store{dir} }

func (s *Store) cellFile(key string) string { return filepath.Join(s.dir, key+".zip") }

// Get returns the tables of a job; ok is false if the store has none. Tables that cannot
// be read count as missing.
func (s *Store) Get(key string) (b table.Bundle, ok bool, err error) {
	data, err := os.ReadFile(s.cellFile(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if b, err = table.ReadZip(data); err != nil {
		return nil, false, nil // it will be written again
	}
	return b, true, nil
}

// Has reports whether the store has the tables of a job.
func (s *Store) Has(key string) bool {
	_, err := os.Stat(s.cellFile(key))
	return err == nil
}

// CreateDirectory creates the store's directory if it is not there, so that a store without tables is told
// from none.
func (s *Store) CreateDirectory() error { return os.MkdirAll(s.dir, 0o777) }

// Put stores the tables of a job atomically. Its error names the file.
func (s *Store) Put(key string, zip []byte) error {
	if err := s.CreateDirectory(); err != nil {
		return err
	}
	return WriteFile(s.cellFile(key), zip)
}

// WriteFile writes a file of results atomically: it is complete or not there. Its error names the
// file, not the temporary one that takes its place.
func WriteFile(name string, data []byte) error {
	err := renameio.WriteFile(name, data, 0o666)
	var temporary *fs.PathError
	if errors.As(err, &temporary) {
		return &fs.PathError{Op: temporary.Op, Path: name, Err: temporary.Err}
	}
	return err
}

// CopyFrom copies the tables of a job from another store, if only that one has them.
func (s *Store) CopyFrom(from *Store, key string) error {
	if s.Has(key) {
		return nil
	}
	data, err := os.ReadFile(from.cellFile(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Put(key, data)
}
