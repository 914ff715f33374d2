"""Runs migrations on the connection that the application hands over.

A migration only adds: tables, indexes, columns that may be empty or have a default of the server. An alerter is refused
for its version when it starts and not later, so that during an update the older one goes on writing.
"""

from alembic import context

from dutycycle_alerter.store.schema import metadata

connection = context.config.attributes["connection"]
# SQLite cannot alter most things in place: batch mode copies the table.
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
