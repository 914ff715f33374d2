"""Runs migrations on the connection that the application hands over."""

from alembic import context

from dutycycle_alerter.store.schema import metadata

connection = context.config.attributes["connection"]
# SQLite cannot alter most things in place: batch mode copies the table.
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
