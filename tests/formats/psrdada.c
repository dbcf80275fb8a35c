/* A writer and a reader of PSRDADA's own library, beside which corrust's are tried (psrdada.rs). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dada_hdu.h"
#include "ipcbuf.h"
#include "ipcio.h"
#include "multilog.h"

#define HEADER 4096

static void require(int good, const char *what)
{
  if (!good) {
    fprintf(stderr, "psrdada: %s\n", what);
    exit(1);
  }
}

static dada_hdu_t *connect(key_t key)
{
  multilog_t *log = multilog_open("psrdada", 0);
  multilog_add(log, stderr);
  dada_hdu_t *hdu = dada_hdu_create(log);
  dada_hdu_set_key(hdu, key);
  require(dada_hdu_connect(hdu) == 0, "connect");
  return hdu;
}

/* make KEY BLOCKS BYTES READERS; remove KEY; write KEY FILE; read KEY FILE */
int main(int count, char **arguments)
{
  static char bytes[100003];
  require(count > 2, "arguments");
  const char *what = arguments[1];
  key_t key = (key_t)strtoul(arguments[2], NULL, 16);
  if (!strcmp(what, "make")) {
    ipcio_t data = IPCIO_INIT;
    ipcbuf_t header = IPCBUF_INIT;
    unsigned readers = atoi(arguments[5]);
    require(ipcio_create(&data, key, atoi(arguments[3]), atoi(arguments[4]), readers) == 0, "data");
    require(ipcbuf_create(&header, key + 1, 4, HEADER, readers) == 0, "header");
    return 0;
  }
  dada_hdu_t *hdu = connect(key);
  if (!strcmp(what, "remove")) {
    require(ipcio_destroy(hdu->data_block) == 0, "data");
    require(ipcbuf_destroy(hdu->header_block) == 0, "header");
    return 0;
  }
  FILE *file = fopen(arguments[3], *what == 'w' ? "rb" : "wb");
  require(file != NULL, "file");
  if (!strcmp(what, "write")) {
    require(dada_hdu_lock_write(hdu) == 0, "lock");
    char *header = ipcbuf_get_next_write(hdu->header_block);
    require(header != NULL && fread(header, 1, HEADER, file) == HEADER, "header");
    require(ipcbuf_mark_filled(hdu->header_block, HEADER) == 0, "header");
    size_t found;
    while ((found = fread(bytes, 1, sizeof bytes, file)) > 0)
      require(ipcio_write(hdu->data_block, bytes, found) == (ssize_t)found, "samples");
    require(dada_hdu_unlock_write(hdu) == 0, "unlock");
  } else {
    require(dada_hdu_lock_read(hdu) == 0, "lock");
    require(dada_hdu_open(hdu) == 0, "header");
    require(fwrite(hdu->header, 1, hdu->header_size, file) == hdu->header_size, "header");
    ssize_t found;
    while ((found = ipcio_read(hdu->data_block, bytes, sizeof bytes)) > 0)
      require(fwrite(bytes, 1, found, file) == (size_t)found, "samples");
    require(found == 0, "samples");
    require(dada_hdu_unlock_read(hdu) == 0, "unlock");
  }
  require(fclose(file) == 0, "file");
  return dada_hdu_disconnect(hdu);
}
