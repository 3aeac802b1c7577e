package experiment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/weftlab/weft/emu/experiment/table"
)

// Store keeps what jobs left behind in a directory, a file for each by its key, so that an
// experiment goes on where it was.
type Store struct{ dir string }

// NewStore makes a store of a directory, which is made when something is kept.
func NewStore(dir string) *Store { return &Store{dir} }

func (s *Store) file(key string) string { return filepath.Join(s.dir, key+".zip") }

// Get gives the tables of a job; ok is false if the store has none. Tables that cannot be
// read are as good as none.
func (s *Store) Get(key string) (b table.Bundle, ok bool, err error) {
	data, err := os.ReadFile(s.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if b, err = table.ReadZip(data); err != nil {
		return nil, false, nil // it is written again
	}
	return b, true, nil
}

// Has tells whether the store has the tables of a job.
func (s *Store) Has(key string) bool {
	_, err := os.Stat(s.file(key))
	return err == nil
}

// Put keeps the tables of a job: all of them or, after an error, none.
func (s *Store) Put(key string, zip []byte) error {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return err
	}
	return renameio.WriteFile(s.file(key), zip, 0o666)
}

// Take copies the tables of a job from another store, if that has them and this has not.
func (s *Store) Take(from *Store, key string) error {
	if s.Has(key) {
		return nil
	}
	data, err := os.ReadFile(from.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Put(key, data)
}
